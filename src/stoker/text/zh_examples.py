"""中文：每个命令的示例，用于帮助。键与 en_examples.py 相同（有测试保证）。

每行一个示例，照原样输入；两个空格和 `#` 之后说明用途。测试会解析每一个示例。
"""

from __future__ import annotations

PHRASES: dict[str, str] = {
    "help.up.examples": (
        "stoker up  # 在前台运行；Ctrl-C 停止服务器\n"
        "stoker up --detach --simulate-gpus 4  # 没有 GPU 也可试用\n"
        "stoker up --standby --detach  # 服务器结束后接管\n"
        "stoker up --listen [::1]:7433"
    ),
    "help.down.examples": (
        "stoker down  # 停止服务器，任务继续\n"
        "stoker down --stop-tasks --yes  # 全部停止"
    ),
    "help.submit.examples": (
        "stoker submit --gpus 1 -- python train.py --lr 0.1\n"
        "stoker submit -g 2 -t 12h -c 'cd ~/work && python train.py'\n"
        "stoker submit train.sh  # 脚本内写：#STOKER --gpus 2 -t 2h\n"
        "stoker submit --array 0-99%8 -c 'python run.py $STOKER_ARRAY_INDEX'\n"
        "stoker submit --sweep lr=1e-3,1e-4 -- python train.py --lr {{lr}}\n"
        "stoker submit --after 12:ok -- python test.py\n"
        "stoker submit --dry-run -g 4 -- python train.py  # 现在能启动吗？"
    ),
    "help.ls.examples": (
        "stoker ls\n"
        "stoker ls -a -n 20  # 最近 20 个，包括历史任务\n"
        "stoker ls -s running -s starting\n"
        "stoker ls 17  # 批量任务 17 中的每一个"
    ),
    "help.show.examples": (
        "stoker show 17\n"
        "stoker show 17_3  # 批量任务中的一个\n"
        "stoker show --json 17 | jq .task.state"
    ),
    "help.why.examples": (
        "stoker why 17\n"
        "stoker why --json 17  # 供程序使用"
    ),
    "help.top.examples": (
        "stoker top\n"
        "stoker top --every 10  # 网络较慢时\n"
        "stoker top --once > state.txt  # 只输出一次，写入文件\n"
        "watch -n 5 stoker top  # 没有按键"
    ),
    "help.logs.examples": (
        "stoker logs -f 17  # 跟随到结束\n"
        "stoker logs --tail 20 17\n"
        "stoker logs 17 > output.txt  # 逐字节相同"
    ),
    "help.wait.examples": (
        "stoker wait 17 18 && echo 都完成了\n"
        "stoker wait --timeout 10m 17  # 最多十分钟"
    ),
    "help.cancel.examples": (
        "stoker cancel 17\n"
        "stoker cancel 17 18 20_3  # 多个；20_3 是批量任务 20 中的一个"
    ),
    "help.hold.examples": (
        "stoker hold 17\n"
        "stoker submit --hold -- python train.py  # 一开始就未就绪"
    ),
    "help.release.examples": (
        "stoker release 17\n"
        "stoker release --anyway 18  # 即使前驱任务运行错误"
    ),
    "help.edit.examples": (
        "stoker edit 17 --gpus 2 --time-limit 4h\n"
        "stoker edit 17 --unset gpu-model  # 任何型号都可以\n"
        "stoker edit 17 -- python train.py --lr 0.01"
    ),
    "help.extend.examples": (
        "stoker extend 17 +2h\n"
        "stoker extend 17 2d  # 从开始算起一共两天\n"
        "stoker extend 17 none"
    ),
    "help.share.examples": (
        "stoker share\n"
        "stoker share bo  # 管理员可用\n"
        "stoker share --json"
    ),
    "help.move.examples": (
        "stoker move 17 --first\n"
        "stoker move 17 --after 12  # 紧跟在任务 12 之后"
    ),
    "help.resubmit.examples": (
        "stoker resubmit 17\n"
        "stoker resubmit 17 --failed  # 批量任务中运行错误的部分\n"
        "stoker resubmit 17 18  # 两个都作为新任务"
    ),
    "help.requeue.examples": (
        "stoker requeue 17\n"
        "stoker requeue 17 18  # 两个都从头运行"
    ),
    "help.delete.examples": (
        "stoker delete 17\n"
        "stoker delete 17 --with-successors --yes  # 不再询问"
    ),
    "help.nodes.examples": (
        "stoker nodes\n"
        "stoker nodes --json | jq '.[].cards[].utilisation'  # 供程序使用"
    ),
    "help.queue.examples": (
        "stoker queue ls\n"
        "stoker submit -q debug -g 1 -- python test.py  # 短测试优先"
    ),
    "help.queue-ls.examples": "stoker queue ls\nstoker queue ls --json | jq '.[].name'  # 供程序使用",
    "help.queue-show.examples": "stoker queue show debug\nstoker queue show debug --json  # 供程序使用",
    "help.queue-add.examples": (
        "stoker queue add debug --longest 15m --default-limit 15m --priority 10\n"
        "stoker queue add vision --teams vision --most-cards 8  # 一个小组用 8 块\n"
        "stoker queue add big --models A100 --labels nvlink --spread"
    ),
    "help.queue-edit.examples": (
        "stoker queue edit debug --most-cards-each 2\n"
        "stoker queue edit debug --longest none  # 不限时限\n"
        "stoker queue edit vision --people ana,bo --teams none"
    ),
    "help.queue-rm.examples": (
        "stoker queue rm old\n"
        "stoker queue rm old --move-to default  # 等待的任务移到那里"
    ),
    "help.team.examples": "stoker team ls\nstoker team add vision --add ana,bo --most-cards 8  # 合计 8 块",
    "help.team-ls.examples": "stoker team ls\nstoker team ls --json  # 供程序使用",
    "help.team-add.examples": (
        "stoker team add vision\n"
        "stoker team add vision --add ana,bo --most-cards 8  # 合计 8 块 GPU"
    ),
    "help.team-edit.examples": (
        "stoker team edit vision --add cy --remove bo\n"
        "stoker team edit vision --most-cards none  # 取消配额"
    ),
    "help.team-rm.examples": "stoker team rm vision\nstoker team rm vision --json  # 供程序使用",
    "help.quota.examples": "stoker quota ls\nstoker quota set ana 4  # 同时 4 块 GPU",
    "help.quota-ls.examples": "stoker quota ls\nstoker quota ls --json  # 供程序使用",
    "help.quota-set.examples": (
        "stoker quota set ana 4  # 同时 4 块 GPU\n"
        "stoker quota set ana none\n"
        "stoker quota set --team vision 8"
    ),
    "help.nodes-label.examples": (
        "stoker nodes label lab1 --add nvlink --add a100\n"
        "stoker nodes label lab1 --remove nvlink  # 去掉一个标签"
    ),
    "help.drain.examples": (
        "stoker drain lab1\n"
        "stoker drain lab1 --why '周五更换驱动'"
    ),
    "help.resume.examples": (
        "stoker resume lab1\n"
        "stoker resume lab1 --json  # 供程序使用"
    ),
    "help.reset.examples": (
        "stoker reset\n"
        "stoker reset --yes  # 不再询问"
    ),
    "help.config.examples": (
        "stoker config show\n"
        "stoker config show --json  # 供程序使用"
    ),
    "help.help.examples": (
        "stoker help\n"
        "stoker help submit  # 与 stoker submit --help 相同"
    ),
    "help.completion.examples": (
        "stoker completion bash > ~/.local/share/bash-completion/completions/stoker\n"
        "stoker completion zsh > ~/.zfunc/_stoker  # fpath 中的目录\n"
        "stoker completion fish > ~/.config/fish/completions/stoker.fish"
    ),
    "help.version.examples": (
        "stoker version\n"
        "stoker version --json  # 供程序使用"
    ),
    "help.export.examples": (
        "stoker export -o tasks.csv  # 可用 Excel 打开\n"
        "stoker export --since 7d --outcome failed --columns id,name,message\n"
        "stoker export --since 2026-11-01 --elements -o november.jsonl\n"
        "stoker export 17 18"
    ),
    "help.service.examples": (
        "stoker service install\n"
        "stoker service status  # 在运行吗？"
    ),
    "help.service-install.examples": (
        "stoker service install\n"
        "stoker service install --io-class idle  # 把磁盘让给其他进程"
    ),
    "help.service-uninstall.examples": (
        "stoker service uninstall\n"
        "stoker service uninstall --yes  # 不再询问"
    ),
    "help.service-status.examples": (
        "stoker service status\n"
        "stoker service status --json  # 供脚本使用"
    ),
    "help.service-print.examples": (
        "stoker service print\n"
        "stoker service print --nice 5 --io-class idle  # 让给其他进程"
    ),
    "help.backup.examples": (
        "stoker backup\n"
        "stoker backup /mnt/nas/backups  # 给出文件夹时自动命名\n"
        "stoker backup --no-logs records.tar  # 不含任务输出"
    ),
    "help.restore.examples": (
        "stoker restore stoker-backup-lab1.tar\n"
        "stoker restore stoker-backup-lab1.tar --yes  # 不再询问"
    ),
    "help.login.examples": (
        "stoker login  # 使用当前系统账号名\n"
        "stoker login ana --url https://gpu.lab:7433\n"
        "stoker login --code  # 使用一次性登录码\n"
        "stoker login ana < password.txt  # 在脚本中"
    ),
    "help.logout.examples": "stoker logout\nstoker logout --json  # 供脚本使用",
    "help.me.examples": (
        "stoker me\n"
        "stoker me set language zh\n"
        "stoker me default gpus 1  # 提交时没有说明则使用"
    ),
    "help.me_set.examples": (
        "stoker me set email ana@lab.example\n"
        "stoker me set notify failed,limit  # 要接收哪些通知"
    ),
    "help.me_default.examples": (
        "stoker me default time-limit 2d\n"
        "stoker me default gpus --unset  # 取消默认值"
    ),
    "help.passwd.examples": "stoker passwd\nstoker passwd < both.txt  # 第一行旧密码，第二行新密码",
    "help.token.examples": "stoker token ls\nstoker token new nightly --days 365  # 只显示一次",
    "help.token_ls.examples": "stoker token ls\nstoker token ls --person bo  # 管理员查看他人的",
    "help.token_new.examples": (
        "stoker token new nightly --days 365\n"
        "stoker token new dashboard --scope tasks:read  # 只能查看"
    ),
    "help.token_rm.examples": "stoker token rm 3f9a1c02d4e5b6a7\nstoker token rm 3f9a1c02d4e5b6a7 --json  # 供脚本使用",
    "help.user.examples": (
        "stoker user ls\n"
        "stoker user add ana bo cy  # 每人得到一个一次性密码\n"
        "stoker user add --file class.csv --out passwords.csv\n"
        "stoker user lock bo  # 立即禁止登录，任务继续\n"
        "stoker user rm bo --tasks cancel"
    ),
    "help.user_ls.examples": "stoker user ls\nstoker user ls --json  # 供脚本使用",
    "help.user_show.examples": "stoker user show ana\nstoker user show ana --json  # 供脚本使用",
    "help.user_add.examples": (
        "stoker user add ana --full-name 'Ana Li' --expires 2027-06-30\n"
        "stoker user add ana bo cy --team vision\n"
        "stoker user add --file class.csv --out passwords.csv\n"
        "stoker user add ana --login system  # 使用系统密码登录"
    ),
    "help.user_edit.examples": (
        "stoker user edit ana --expires 2027-12-31  # 延长有效期\n"
        "stoker user edit ana --account lana --node-account gpu2=ana2"
    ),
    "help.user_lock.examples": "stoker user lock bo\nstoker user lock bo cy  # 多位用户",
    "help.user_unlock.examples": "stoker user unlock bo\nstoker user unlock bo cy  # 多位用户",
    "help.user_rm.examples": (
        "stoker user rm bo  # 会询问如何处理任务\n"
        "stoker user rm bo --tasks cancel --yes"
    ),
    "help.user_passwd.examples": "stoker user passwd bo\nstoker user passwd bo --json  # 供脚本使用",
    "help.user_role.examples": "stoker user role ana admin  # 可以做任何事\nstoker user role ana user",
    "help.user_weight.examples": (
        "stoker user weight ana 2  # 两倍份额\n"
        "stoker user weight ana -1  # 先于所有人"
    ),
    "help.user_code.examples": "stoker user code bo\nstoker user code bo --json  # 供脚本使用",
    "help.notify.examples": (
        "stoker notify set feishu  # 按提示粘贴机器人的 Webhook 地址\n"
        "stoker notify test\n"
        "stoker notify on finished,limit\n"
        "stoker submit --notify failed -- python train.py  # 只对这个任务"
    ),
    "help.notify-ls.examples": (
        "stoker notify ls\n"
        "stoker notify ls --json  # 供脚本使用"
    ),
    "help.notify-set.examples": (
        "stoker notify set mail  # 您的电子邮件地址\n"
        "stoker notify set feishu\n"
        "stoker notify set group < address.txt"
    ),
    "help.notify-rm.examples": (
        "stoker notify rm feishu  # 不再通过飞书通知\n"
        "stoker notify rm mail"
    ),
    "help.notify-test.examples": (
        "stoker notify test  # 您的全部渠道\n"
        "stoker notify test feishu"
    ),
    "help.notify-on.examples": (
        "stoker notify on finished,limit\n"
        "stoker notify on failed:feishu  # 出错时，只走该渠道"
    ),
    "help.notify-off.examples": (
        "stoker notify off started\n"
        "stoker notify off  # 什么都不再通知"
    ),
    "help.notify-mail.examples": (
        "stoker notify mail  # 查看当前设置\n"
        "stoker notify mail --host smtp.lab.example --user stoker@lab.example\n"
        "stoker notify mail --host smtp.lab.example --tls none --sender gpu@lab.example"
    ),
    "help.db.examples": (
        "stoker db check  # 检查记录是否完好\n"
        "stoker db copy postgresql://stoker@db.lab/stoker"
    ),
    "help.db_copy.examples": (
        "stoker db copy postgresql://stoker@db.lab/stoker  # 复制到 PostgreSQL\n"
        "stoker db copy --from postgresql://stoker@db.lab/stoker copy.db  # 复制回文件"
    ),
    "help.db_check.examples": (
        "stoker db check\n"
        "stoker db check --json  # 供脚本使用"
    ),
    "help.upgrade-check.examples": (
        "stoker upgrade-check\n"
        "stoker upgrade-check --json  # 供脚本使用"
    ),
    "help.pause.examples": (
        "stoker pause 磁盘已满\n"
        "stoker pause --off  # 开始调度"
    ),
    "help.announce.examples": (
        "stoker announce 周五 22:00 维护\n"
        "stoker announce  # 当前的提示信息\n"
        "stoker announce --clear"
    ),
    "help.settings.examples": (
        "stoker settings ls  # 生效的值及来源\n"
        "stoker settings set policy fifo  # 立即生效，无需重启\n"
        "stoker settings unset policy  # 恢复为 config.toml 的值"
    ),
    "help.settings_ls.examples": (
        "stoker settings ls\n"
        "stoker settings ls --json  # 供脚本使用"
    ),
    "help.settings_get.examples": (
        "stoker settings get policy\n"
        "stoker settings get keep_days --json  # 以及其他信息"
    ),
    "help.settings_set.examples": (
        "stoker settings set policy fairshare\n"
        "stoker settings set keep_days 90  # 结束 90 天后删除\n"
        "stoker settings set keep_idle_s 4h  # 时间可以这样写\n"
        "stoker settings set reuse_any yes"
    ),
    "help.settings_unset.examples": (
        "stoker settings unset policy\n"
        "stoker settings unset keep_days --json  # 供脚本使用"
    ),
    "help.audit.examples": (
        "stoker audit ls  # 谁做了什么\n"
        "stoker audit verify  # 是否被改动过\n"
        "stoker audit export -o audit.jsonl  # 在别处保存"
    ),
    "help.audit_ls.examples": (
        "stoker audit ls -n 10\n"
        "stoker audit ls --who ana --act settings  # ana 修改的设置"
    ),
    "help.audit_verify.examples": (
        "stoker audit verify\n"
        "stoker audit verify --file audit.jsonl  # 不需要服务器"
    ),
    "help.audit_export.examples": (
        "stoker audit export > audit.jsonl\n"
        "stoker audit export -o audit.jsonl  # 在别处保存"
    ),
    "help.server-log.examples": (
        "stoker server-log -n 20\n"
        "stoker server-log -f  # 持续显示\n"
        "stoker server-log --full -f  # 服务器自己的日志，仅限管理员"
    ),
}  # fmt: skip
