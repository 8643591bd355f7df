"""English: examples of every command, for its help. Same keys as zh_examples.py (a test says so).

One example per line, as it is typed; after two blanks and `#` what it is for. A test parses each.
"""

from __future__ import annotations

PHRASES: dict[str, str] = {
    "help.up.examples": (
        "stoker up  # in the foreground; Ctrl-C ends the server\n"
        "stoker up --detach --simulate-gpus 4  # try it without GPUs\n"
        "stoker up --standby --detach  # takes over when the server is gone\n"
        "stoker up --listen [::1]:7433"
    ),
    "help.down.examples": (
        "stoker down  # the server ends, tasks go on\n"
        "stoker down --stop-tasks --yes  # everything ends"
    ),
    "help.submit.examples": (
        "stoker submit --gpus 1 -- python train.py --lr 0.1\n"
        "stoker submit -g 2 -t 12h -c 'cd ~/work && python train.py'\n"
        "stoker submit train.sh  # with lines such as: #STOKER --gpus 2 -t 2h\n"
        "stoker submit --array 0-99%8 -c 'python run.py $STOKER_ARRAY_INDEX'\n"
        "stoker submit --sweep lr=1e-3,1e-4 -- python train.py --lr {{lr}}\n"
        "stoker submit --after 12:ok -- python test.py\n"
        "stoker submit --dry-run -g 4 -- python train.py  # would it start now?"
    ),
    "help.ls.examples": (
        "stoker ls\n"
        "stoker ls -a -n 20  # the last 20, finished ones too\n"
        "stoker ls -s running -s starting\n"
        "stoker ls 17  # the elements of array 17"
    ),
    "help.show.examples": (
        "stoker show 17\n"
        "stoker show 17_3  # one element of an array\n"
        "stoker show --json 17 | jq .task.state"
    ),
    "help.why.examples": (
        "stoker why 17\n"
        "stoker why --json 17  # for a program"
    ),
    "help.top.examples": (
        "stoker top\n"
        "stoker top --every 10  # over a slow line\n"
        "stoker top --once > state.txt  # one picture, into a file\n"
        "watch -n 5 stoker top  # without keys"
    ),
    "help.logs.examples": (
        "stoker logs -f 17  # follow it to the end\n"
        "stoker logs --tail 20 17\n"
        "stoker logs 17 > output.txt  # every byte as it was"
    ),
    "help.wait.examples": (
        "stoker wait 17 18 && echo both are done\n"
        "stoker wait --timeout 10m 17  # at most ten minutes"
    ),
    "help.cancel.examples": (
        "stoker cancel 17\n"
        "stoker cancel 17 18 20_3  # several; 20_3 is one element of array 20"
    ),
    "help.hold.examples": (
        "stoker hold 17\n"
        "stoker submit --hold -- python train.py  # held from the beginning"
    ),
    "help.release.examples": (
        "stoker release 17\n"
        "stoker release --anyway 18  # although the task before it failed"
    ),
    "help.edit.examples": (
        "stoker edit 17 --gpus 2 --time-limit 4h\n"
        "stoker edit 17 --unset gpu-model  # any model will do\n"
        "stoker edit 17 -- python train.py --lr 0.01"
    ),
    "help.extend.examples": (
        "stoker extend 17 +2h\n"
        "stoker extend 17 2d  # two days in all, from its start\n"
        "stoker extend 17 none"
    ),
    "help.share.examples": (
        "stoker share\n"
        "stoker share bo  # for admins\n"
        "stoker share --json"
    ),
    "help.move.examples": (
        "stoker move 17 --first\n"
        "stoker move 17 --after 12  # right behind task 12"
    ),
    "help.resubmit.examples": (
        "stoker resubmit 17\n"
        "stoker resubmit 17 --failed  # what failed of an array\n"
        "stoker resubmit 17 18  # both, as two new tasks"
    ),
    "help.requeue.examples": (
        "stoker requeue 17\n"
        "stoker requeue 17 18  # both start again from the beginning"
    ),
    "help.delete.examples": (
        "stoker delete 17\n"
        "stoker delete 17 --with-successors --yes  # without being asked"
    ),
    "help.nodes.examples": (
        "stoker nodes\n"
        "stoker nodes --json | jq '.[].cards[].utilisation'  # for a program"
    ),
    "help.queue.examples": (
        "stoker queue ls\n"
        "stoker submit -q debug -g 1 -- python test.py  # short tests go first"
    ),
    "help.queue-ls.examples": "stoker queue ls\nstoker queue ls --json | jq '.[].name'  # for a program",
    "help.queue-show.examples": "stoker queue show debug\nstoker queue show debug --json",
    "help.queue-add.examples": (
        "stoker queue add debug --longest 15m --default-limit 15m --priority 10\n"
        "stoker queue add vision --teams vision --most-cards 8  # for one team, 8 GPUs\n"
        "stoker queue add big --models A100 --labels nvlink --spread"
    ),
    "help.queue-edit.examples": (
        "stoker queue edit debug --most-cards-each 2\n"
        "stoker queue edit debug --longest none  # any time limit\n"
        "stoker queue edit vision --people ana,bo --teams none"
    ),
    "help.queue-rm.examples": (
        "stoker queue rm old\n"
        "stoker queue rm old --move-to default  # what waits goes there"
    ),
    "help.team.examples": "stoker team ls\nstoker team add vision --add ana,bo --most-cards 8",
    "help.team-ls.examples": "stoker team ls\nstoker team ls --json  # for a program",
    "help.team-add.examples": (
        "stoker team add vision\n"
        "stoker team add vision --add ana,bo --most-cards 8  # 8 GPUs together"
    ),
    "help.team-edit.examples": (
        "stoker team edit vision --add cy --remove bo\n"
        "stoker team edit vision --most-cards none  # no quota"
    ),
    "help.team-rm.examples": "stoker team rm vision\nstoker team rm vision --json  # for a program",
    "help.quota.examples": "stoker quota ls\nstoker quota set ana 4  # 4 GPUs at the same time",
    "help.quota-ls.examples": "stoker quota ls\nstoker quota ls --json  # for a program",
    "help.quota-set.examples": (
        "stoker quota set ana 4  # 4 GPUs at the same time\n"
        "stoker quota set ana none\n"
        "stoker quota set --team vision 8"
    ),
    "help.nodes-label.examples": (
        "stoker nodes label lab1 --add nvlink --add a100\n"
        "stoker nodes label lab1 --remove nvlink  # one label less"
    ),
    "help.drain.examples": (
        "stoker drain lab1\n"
        "stoker drain lab1 --why 'new driver on Friday'"
    ),
    "help.resume.examples": (
        "stoker resume lab1\n"
        "stoker resume lab1 --json  # for a program"
    ),
    "help.reset.examples": (
        "stoker reset\n"
        "stoker reset --yes  # without being asked"
    ),
    "help.config.examples": (
        "stoker config show\n"
        "stoker config show --json  # for a program"
    ),
    "help.help.examples": (
        "stoker help\n"
        "stoker help submit  # the same as stoker submit --help"
    ),
    "help.completion.examples": (
        "stoker completion bash > ~/.local/share/bash-completion/completions/stoker\n"
        "stoker completion zsh > ~/.zfunc/_stoker  # a folder of your fpath\n"
        "stoker completion fish > ~/.config/fish/completions/stoker.fish"
    ),
    "help.version.examples": (
        "stoker version\n"
        "stoker version --json  # for a program"
    ),
    "help.export.examples": (
        "stoker export -o tasks.csv  # for Excel\n"
        "stoker export --since 7d --outcome failed --columns id,name,message\n"
        "stoker export --since 2026-11-01 --elements -o november.jsonl\n"
        "stoker export 17 18"
    ),
    "help.service.examples": (
        "stoker service install\n"
        "stoker service status  # does it run?"
    ),
    "help.service-install.examples": (
        "stoker service install\n"
        "stoker service install --io-class idle  # yields the disks to others"
    ),
    "help.service-uninstall.examples": (
        "stoker service uninstall\n"
        "stoker service uninstall --yes  # without being asked"
    ),
    "help.service-status.examples": (
        "stoker service status\n"
        "stoker service status --json  # for scripts"
    ),
    "help.service-print.examples": (
        "stoker service print\n"
        "stoker service print --nice 5 --io-class idle  # yields to others"
    ),
    "help.backup.examples": (
        "stoker backup\n"
        "stoker backup /mnt/nas/backups  # a folder: the file names itself\n"
        "stoker backup --no-logs records.tar  # without the output of tasks"
    ),
    "help.restore.examples": (
        "stoker restore stoker-backup-lab1.tar\n"
        "stoker restore stoker-backup-lab1.tar --yes  # without being asked"
    ),
    "help.login.examples": (
        "stoker login  # by your account's name\n"
        "stoker login ana --url https://gpu.lab:7433\n"
        "stoker login --code  # with a one-time code\n"
        "stoker login ana < password.txt  # in a script"
    ),
    "help.logout.examples": "stoker logout\nstoker logout --json  # for scripts",
    "help.me.examples": (
        "stoker me\n"
        "stoker me set language zh\n"
        "stoker me default gpus 1  # unless a submission says otherwise"
    ),
    "help.me_set.examples": (
        "stoker me set email ana@lab.example\n"
        "stoker me set notify failed,limit  # what to be told"
    ),
    "help.me_default.examples": (
        "stoker me default time-limit 2d\n"
        "stoker me default gpus --unset  # no default any more"
    ),
    "help.passwd.examples": "stoker passwd\nstoker passwd < both.txt  # the old one, then the new one",
    "help.token.examples": "stoker token ls\nstoker token new nightly --days 365  # shown once",
    "help.token_ls.examples": "stoker token ls\nstoker token ls --person bo  # as an admin",
    "help.token_new.examples": (
        "stoker token new nightly --days 365\n"
        "stoker token new dashboard --scope tasks:read  # may look, not touch"
    ),
    "help.token_rm.examples": "stoker token rm 3f9a1c02d4e5b6a7\nstoker token rm 3f9a1c02d4e5b6a7 --json  # for scripts",
    "help.user.examples": (
        "stoker user ls\n"
        "stoker user add ana bo cy  # each gets a one-time password\n"
        "stoker user add --file class.csv --out passwords.csv\n"
        "stoker user lock bo  # shuts out at once; tasks go on\n"
        "stoker user rm bo --tasks cancel"
    ),
    "help.user_ls.examples": "stoker user ls\nstoker user ls --json  # for scripts",
    "help.user_show.examples": "stoker user show ana\nstoker user show ana --json  # for scripts",
    "help.user_add.examples": (
        "stoker user add ana --full-name 'Ana Li' --expires 2027-06-30\n"
        "stoker user add ana bo cy --team vision\n"
        "stoker user add --file class.csv --out passwords.csv\n"
        "stoker user add ana --login system  # with the system's password"
    ),
    "help.user_edit.examples": (
        "stoker user edit ana --expires 2027-12-31  # one more year\n"
        "stoker user edit ana --account lana --node-account gpu2=ana2"
    ),
    "help.user_lock.examples": "stoker user lock bo\nstoker user lock bo cy  # several",
    "help.user_unlock.examples": "stoker user unlock bo\nstoker user unlock bo cy  # several",
    "help.user_rm.examples": (
        "stoker user rm bo  # asks about tasks\n"
        "stoker user rm bo --tasks cancel --yes"
    ),
    "help.user_passwd.examples": "stoker user passwd bo\nstoker user passwd bo --json  # for scripts",
    "help.user_role.examples": "stoker user role ana admin  # may do everything\nstoker user role ana user",
    "help.user_weight.examples": (
        "stoker user weight ana 2  # twice the share\n"
        "stoker user weight ana -1  # before everybody"
    ),
    "help.user_code.examples": "stoker user code bo\nstoker user code bo --json  # for scripts",
    "help.notify.examples": (
        "stoker notify set feishu  # asks for the robot's webhook address\n"
        "stoker notify test\n"
        "stoker notify on finished,limit\n"
        "stoker submit --notify failed -- python train.py  # for this task only"
    ),
    "help.notify-ls.examples": (
        "stoker notify ls\n"
        "stoker notify ls --json  # for scripts"
    ),
    "help.notify-set.examples": (
        "stoker notify set mail  # your e-mail address\n"
        "stoker notify set feishu\n"
        "stoker notify set group < address.txt"
    ),
    "help.notify-rm.examples": (
        "stoker notify rm feishu\n"
        "stoker notify rm mail"
    ),
    "help.notify-test.examples": (
        "stoker notify test  # all of your channels\n"
        "stoker notify test feishu"
    ),
    "help.notify-on.examples": (
        "stoker notify on finished,limit\n"
        "stoker notify on failed:feishu  # failures, over that channel only"
    ),
    "help.notify-off.examples": (
        "stoker notify off started\n"
        "stoker notify off  # nothing at all"
    ),
    "help.notify-mail.examples": (
        "stoker notify mail  # how it is set\n"
        "stoker notify mail --host smtp.lab.example --user stoker@lab.example\n"
        "stoker notify mail --host smtp.lab.example --tls none --sender gpu@lab.example"
    ),
    "help.db.examples": (
        "stoker db check  # are the records sound?\n"
        "stoker db copy postgresql://stoker@db.lab/stoker"
    ),
    "help.db_copy.examples": (
        "stoker db copy postgresql://stoker@db.lab/stoker\n"
        "stoker db copy --from postgresql://stoker@db.lab/stoker copy.db"
    ),
    "help.db_check.examples": (
        "stoker db check\n"
        "stoker db check --json  # for scripts"
    ),
    "help.upgrade-check.examples": (
        "stoker upgrade-check\n"
        "stoker upgrade-check --json  # for scripts"
    ),
    "help.pause.examples": (
        "stoker pause disk is full\n"
        "stoker pause --off  # tasks start again"
    ),
    "help.announce.examples": (
        "stoker announce maintenance on Friday, 22:00\n"
        "stoker announce  # what is shown now\n"
        "stoker announce --clear"
    ),
    "help.settings.examples": (
        "stoker settings ls  # what holds, and where it comes from\n"
        "stoker settings set policy fifo  # at once, no restart\n"
        "stoker settings unset policy  # back to config.toml"
    ),
    "help.settings_ls.examples": (
        "stoker settings ls\n"
        "stoker settings ls --json  # for scripts"
    ),
    "help.settings_get.examples": (
        "stoker settings get policy\n"
        "stoker settings get keep_days --json  # with all that is known of it"
    ),
    "help.settings_set.examples": (
        "stoker settings set policy fairshare\n"
        "stoker settings set keep_days 90  # finished tasks go after 90 days\n"
        "stoker settings set keep_idle_s 4h  # times as people say them\n"
        "stoker settings set reuse_any yes"
    ),
    "help.settings_unset.examples": (
        "stoker settings unset policy\n"
        "stoker settings unset keep_days --json  # for scripts"
    ),
    "help.audit.examples": (
        "stoker audit ls  # who did what\n"
        "stoker audit verify  # is it as it was written?\n"
        "stoker audit export -o audit.jsonl  # to keep elsewhere"
    ),
    "help.audit_ls.examples": (
        "stoker audit ls -n 10\n"
        "stoker audit ls --who ana --act settings  # ana's changes of settings"
    ),
    "help.audit_verify.examples": (
        "stoker audit verify\n"
        "stoker audit verify --file audit.jsonl  # without a server"
    ),
    "help.audit_export.examples": (
        "stoker audit export > audit.jsonl\n"
        "stoker audit export -o audit.jsonl  # to keep elsewhere"
    ),
    "help.server-log.examples": (
        "stoker server-log -n 20\n"
        "stoker server-log -f  # go on with what happens\n"
        "stoker server-log --full -f  # the log itself, for admins"
    ),
}  # fmt: skip
