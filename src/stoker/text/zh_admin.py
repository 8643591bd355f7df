"""中文：与整个实验室有关的文字：设置、停止调度、提示信息、审计记录、日志信息。

键与 en_admin.py 相同（有测试保证）。`news.CODE` 是所有人都能看到的一行日志信息。
"""

from __future__ import annotations

PHRASES: dict[str, str] = {
    # ---- 每个命令都可能显示
    "heard.announcement": "提示信息：{text}",
    "heard.paused": "{by} 自 {since} 起停止调度：不启动新任务，运行中的任务继续。",
    "heard.paused_why": "{by} 自 {since} 起停止调度（{why}）：不启动新任务，运行中的任务继续。",
    # ---- 停止调度、提示信息
    "pause.on": "调度已停止：不再启动新任务。运行中的任务继续；仍可提交任务，提交后排队等待。用 `stoker pause --off` 开始调度。",
    "pause.off": "已开始调度。",
    "pause.off_without_why": "--off 不需要原因。",
    "announce.none": "没有提示信息。",
    "announce.cleared": "提示信息已清除。",
    "announce.done": "所有人都会看到：{text}",
    "announce.shown": "{text}（{by}，{at}）",
    "announce.clear_without_text": "--clear 不需要文字。",
    # ---- 设置
    "settings.name": "设置",
    "settings.value": "值",
    "settings.from": "来源",
    "settings.about": "含义",
    "settings.from_default": "默认",
    "settings.from_file": "config.toml",
    "settings.from_changed": "已修改，默认 {default}",
    "settings.relation": "在此修改立即生效，并优先于 config.toml；`stoker settings unset 名称` 恢复为后者。",
    "settings.done": "{name}：{old} → {new}（{source}）",
    "settings.same": "{name} 已经是 {value}。",
    "settings.yes_or_no": "`{value}` 既不是 yes 也不是 no。",
    "settings.no": "没有这个设置；`stoker settings ls` 列出全部。",
    "settings.no_near": "没有这个设置。是否指 `{near}`？",
    # ---- 审计记录
    "audit.number": "编号",
    "audit.at": "时间",
    "audit.who": "用户",
    "audit.act": "操作",
    "audit.on": "内容",
    "audit.from": "来自 {origin}",
    "audit.none": "没有这样的操作。",
    "audit.sound": "全部 {count} 条操作前后相接。请记下末尾的哈希值，以后可以核对：\n{head}",
    "audit.broken": "审计记录在第 {number} 条处断开：该条被改动或插入，或之前有内容被删去。此前的 {count} 条完好。",
    "audit.head_there": "您记下的哈希值是第 {number} 条：到该条为止一切未变。",
    "audit.head_gone": "没有任何一条的哈希值是您记下的 {head}：记录此后被截断或改写，或属于另一份记录。",
    "audit.exists": "{path} 已经存在。",
    "audit.exported": "审计记录已写入 {path}；`stoker audit verify --file` 可在没有服务器时校验。",
    "audit.not_a_trail": "{path} 的第 {line} 行不是导出的审计记录。",
    # ---- 日志信息
    "serverlog.none": "还没有发生任何事情。",
    "news.submitted": "{person} 提交了任务 {task}（GPU：{gpus}）。",
    "news.started": "{person} 的任务 {task} 在 {node} 上启动。",
    "news.requeued": "{person} 的任务 {task} 重新排队。",
    "news.ended": "{person} 的任务 {task} 结束：{outcome}。",
    "news.deleted": "任务 {task} 已删除。",
    "news.node_up": "节点 {node} 上线（GPU：{gpus}）。",
    "news.node_down": "节点 {node} 掉线。",
    "news.node_drained": "{person} 让节点 {node} 不再调度新任务。",
    "news.node_resumed": "{person} 恢复了节点 {node} 的调度。",
    "news.node_failing": "节点 {node} 不再调度新任务：连续三次启动失败。",
    "news.paused": "{person} 停止了调度。",
    "news.paused.why": "{person} 停止了调度：{why}",
    "news.unpaused": "已开始调度。",
    "news.announced": "{person} 发布提示信息：{text}",
}
