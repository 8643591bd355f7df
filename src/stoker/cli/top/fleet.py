"""Nodes and their cards as lines: all cards if there is room, else one line for each node. Pure."""

from __future__ import annotations

from datetime import datetime

from stoker.cli.say import language, words
from stoker.cli.screen import clean
from stoker.cli.shown import title
from stoker.text.amounts import duration
from stoker.wire import CardView, NodeView

from .columns import Row, laid
from .model import Scene
from .painter import Line, Span

NOISE = ("NVIDIA ", "GeForce ")
"""Words of a model's name that tell nobody anything."""
HOT_C = 85
GIB = 1024


def fleet_lines(scene: Scene, columns: int, most: int, now: datetime) -> list[Line]:
    """Nodes and cards in at most so many lines."""
    if most < 1:
        return []
    if not scene.nodes:
        return [((words("nodes.none"), "dim"),)]
    if sum(1 + len(node.cards) for node in scene.nodes) <= most:
        return _all(scene, columns, now)
    folded = laid([_folded(node, now) for node in scene.nodes], columns)
    if len(folded) <= most:
        return folded
    left = len(folded) - most + 1
    return [*folded[: most - 1], ((words("top.more_nodes", count=left), "dim"),)]


def _all(scene: Scene, columns: int, now: datetime) -> list[Line]:
    cards = [_card(scene, card) for node in scene.nodes for card in node.cards]
    table = iter(laid(cards, columns, indent=2))
    lines: list[Line] = []
    for node in scene.nodes:
        lines.append(_headline(node, now))
        lines += [next(table) for _ in node.cards]
    return lines


def _headline(node: NodeView, now: datetime) -> Line:
    name, standing = (clean(node.name), "bold"), _standing(node, now)
    if not node.up:
        return name, ("  ", ""), standing
    facts = "  ".join([_cpus(node), _memory(node), *_load(node)])
    return name, ("  ", ""), standing, ("  " + facts, "")


def _folded(node: NodeView, now: datetime) -> Row:
    held = sum(bool(card.tasks or card.task) for card in node.cards)
    cards = words("top.cards", held=held, all=len(node.cards))
    return [
        (clean(node.name), "bold"), (cards, ""), (_cpus(node), ""), (_memory(node), ""),
        _standing(node, now),
    ]  # fmt: skip


def _standing(node: NodeView, now: datetime) -> Span:
    since = "?"
    if node.since is not None:
        since = duration(int(max((now - node.since).total_seconds(), 0)), language())
    if not node.up:
        return words("nodes.down", since=since, why=node.why).rstrip(), "red"
    if node.drained is not None:
        return words("nodes.drained", why=node.drained), "yellow"
    return words("nodes.up", since=since), "green"


def _cpus(node: NodeView) -> str:
    return f"CPU {node.cpus_held}/{node.cpus}"


def _memory(node: NodeView) -> str:
    return words("top.memory", held=_gib(node.memory_held_mib), all=_gib(node.memory_mib))


def _load(node: NodeView) -> list[str]:
    return [] if node.load1 is None else [words("top.load", load=f"{node.load1:.1f}")]


def _card(scene: Scene, card: CardView) -> Row:
    model = clean(card.gpu.model)
    for word in NOISE:
        model = model.replace(word, "")
    used = "?" if card.memory_used_mib is None else _gib(card.memory_used_mib)
    heat = card.temperature_c
    return [
        (f"{card.gpu.index:>2}", ""),
        (f"{used}/{_gib(card.gpu.memory_mib)} GiB", ""),
        ("-" if card.utilisation is None else f"{card.utilisation:>3} %", ""),
        (
            "-" if heat is None else f"{heat} °C",
            "red" if heat is not None and heat >= HOT_C else "",
        ),
        (model, "dim"),
        _who(scene, card),
    ]


def _who(scene: Scene, card: CardView) -> Span:
    """Tasks on it, processes that are not ours, whom it is kept for."""
    said = [_named(scene, id) for id in card.tasks or ((card.task,) if card.task else ())]
    if card.busy and not said:
        said.append(words("top.busy"))
    said += [words("top.foreign", who=_foreign(entry)) for entry in card.foreign]
    tint = "yellow" if card.foreign else "cyan"
    if card.kept_for is not None and not (card.task or card.busy):
        kept = "top.kept" if card.kept_for else "top.kept_unnamed"
        said.append(words(kept, task=card.kept_for))
        tint = "yellow"
    return (", ".join(said), tint) if said else (words("top.free"), "dim")


def _named(scene: Scene, id: str) -> str:
    task = scene.task(id) or scene.task(id.partition("_")[0])
    return f"#{id} {title(task)}" if task is not None else f"#{id}"


def _foreign(entry: str) -> str:
    """`account:pid:command` as people say it."""
    account, _, rest = entry.partition(":")
    pid, _, command = rest.partition(":")
    return clean(f"{account} {command} ({pid})" if command else f"{account} ({pid})")


def _gib(mib: int) -> str:
    return f"{mib / GIB:.1f}".removesuffix(".0")
