"""中文：`stoker top` 显示的文字。键与 en_top.py 相同（有测试保证）。

`top.why.CODE` 是放在一列里的简短等待原因；完整句子在 zh.py。
"""

from __future__ import annotations

PHRASES: dict[str, str] = {
    "top.name": "司炉",
    "top.counts": "运行 {live}，等待 {waiting}，未就绪 {held}",
    "top.id": "编号",
    "top.owner": "用户",
    "top.state": "状态",
    "top.since": "已",
    "top.gpus": "GPU",
    "top.task": "任务",
    "top.where": "节点或原因",
    "top.no_tasks": "没有等待或运行中的任务。",
    "top.more": "只显示前 {count} 个。",
    "top.more_nodes": "另有 {count} 个节点",
    "top.cards": "GPU 已占用 {held}/{all}",
    "top.memory": "内存 {held}/{all} GiB",
    "top.load": "负载 {load}",
    "top.foreign": "外部进程：{who}",
    "top.kept": "为任务 #{task} 预留",
    "top.kept_unnamed": "为他人的任务预留",
    "top.busy": "他人的任务",
    "top.free": "空闲",
    "top.keys": "c 中止  h 未就绪/就绪  l 日志  w 原因  ? 帮助  q 退出",
    "top.keys_panel": "q 返回  方向键与 PageUp、PageDown 滚动",
    "top.ask_cancel": "中止任务 {id}（{title}）？y/n",
    "top.not_cancelled": "任务 {id} 继续。",
    "top.held": "任务 {id} 已设为未就绪；按 h 设为准备就绪。",
    "top.not_waiting": "任务 {id} 不在等待；只有等待中的任务可以设为未就绪。",
    "top.only_yours": "所有任务都是你的。",
    "top.mine": "只显示你的任务；按 a 显示全部。",
    "top.everybody": "显示所有人的任务。",
    "top.lost": "服务器自 {at} 起没有应答，正在重试。任务继续运行。",
    "top.moment": "请稍候……",
    "top.title_why": "任务 {id} 的等待原因：{title}",
    "top.title_log": "任务 {id} 的输出：{title}",
    "top.title_help": "stoker top 的按键",
    "top.help": (
        "  上、下、k、j          选择任务\n"
        "  PageUp、PageDown      翻页；Home、End 到开头、末尾\n"
        "  c                     中止任务；先询问\n"
        "  h                     把等待中的任务设为未就绪，或重新设为准备就绪\n"
        "  l、Enter              跟随任务的输出\n"
        "  w                     等待原因，以及怎样可以立即运行\n"
        "  a                     只看自己的任务，或所有人的任务\n"
        "  q                     返回，退出\n"
        "\n"
        "  预留的 GPU 在那个任务启动之前保持空闲。\n"
        "  外部进程不是由司炉启动的；有外部进程的 GPU 不会被使用。"
    ),
    # ---- 简短的等待原因
    "top.why.no_nodes": "还没有节点",
    "top.why.node_down": "{node} 掉线",
    "top.why.node_drained": "{node} 不再调度新任务",
    "top.why.gpus_busy": "需 {need} 块 GPU，空闲 {free}",
    "top.why.gpu_ids_busy": "GPU {gpus} 使用中",
    "top.why.gpus_foreign": "需 {need} 块 GPU，空闲 {free}；GPU {gpus} 有外部进程",
    "top.why.gpus_kept": "GPU 为任务 #{task} 预留",
    "top.why.gpus_kept_unnamed": "GPU 为排在前面的任务预留",
    "top.why.gpu_memory_busy": "需显存 {need:size}，空闲 {free:size}",
    "top.why.gpu_utilisation": "需空闲 {need} % 的 GPU",
    "top.why.reuse_blocked": "需 {need} 块可复用 GPU，现有 {free}",
    "top.why.cpus_busy": "需 {need} 个 CPU 核，空闲 {free}",
    "top.why.memory_busy": "需内存 {need:size}，空闲 {free:size}",
    "top.why.too_few_nodes": "需 {need} 个节点，{fit} 个有空",
    "top.why.held": "未就绪",
    "top.why.next_moment": "即将启动",
    "top.why.all_started": "已全部启动",
    "top.why.after_pending": "等待前驱任务 #{task}",
    "top.why.after_failed": "前驱任务 #{task} {outcome}",
    "top.why.after_deleted": "前驱任务 #{task} 已删除",
    "top.why.not_before": "{at} 之后启动",
    "top.why.backing_off": "{at} 再试",
    "top.why.array_cap": "最多 {cap} 个，已运行 {live}",
    "top.why.quota_cards": "配额：已占 {held}/{most} 块",
    "top.why.quota_team": "小组 {team}：已占 {held}/{most} 块",
    "top.why.queue_cards": "队列 {queue}：已占 {held}/{most} 块",
    "top.why.queue_cards_each": "队列 {queue}：你已占 {held}/{most} 块",
    "top.why.behind_owner": "排在 {owner} 的任务之后",
    "top.why.behind_unnamed": "排在他人的任务之后",
    "top.why.paused": "已停止调度",
}  # fmt: skip
