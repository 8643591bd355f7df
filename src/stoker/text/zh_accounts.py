"""Chinese sentences about people and their accounts; part of `zh.TEXTS`."""

from __future__ import annotations

TEXTS = {
    "person_exists": "用户 {name} 已经存在。",
    "person_exists.hint": "请换一个名字，或修改已有的用户：stoker user edit {name}",
    "stale_person": "在您查看之后，{name} 已被修改。",
    "stale_person.hint": "请重新查看，然后再试。",
    "person_shut_out": "{name} 已被禁止登录或已过期，登录码没有用处。",
    "person_shut_out.hint": "请先运行：stoker user unlock {name}，或 stoker user edit {name} --expires never",
    "bad_person_name": "`{value}` 不能作为用户名：须以小写字母或 _ 开头，其余为小写字母、数字和 _ . -，最多 32 个字符。",
    "bad_node_name": "`{value}` 不能作为节点名。",
    "bad_account": "`{value}` 不能作为系统账号。",
    "account_taken": "系统账号 {account} 属于 {person}：共用时双方可以读取和停止对方的任务。",
    "account_taken.hint": "请换一个账号，或明确表示共用：--share-account",
    "last_admin": "{name} 是最后一位可以登录的管理员，这样做之后无人能够恢复。",
    "last_admin.hint": "请先设置另一位管理员：stoker user role NAME admin",
    "has_tasks": "{name} 还有未结束的任务：{waiting} 个等待，{running} 个运行。",
    "has_tasks.hint": "要同时取消这些任务：stoker user rm {name} --tasks cancel",
    "system_password": "{name} 使用系统密码登录，这里没有可设置的密码。",
    "system_password.hint": "请在系统中修改，或先运行：stoker user edit {name} --login own",
}
