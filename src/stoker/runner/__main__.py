"""The runner's program: `serve` (a runner), `attach` (stdio joined to one), `gpus` (a list)."""

from __future__ import annotations

import argparse
import sys


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="stoker-runner")
    verbs = parser.add_subparsers(dest="verb", required=True)
    server = verbs.add_parser("serve", help="run commands on this node")
    server.add_argument("--spool", required=True, help="folder on a local disk")
    server.add_argument("--replace", action="store_true", help="end a runner that holds it")
    server.add_argument("--simulate-gpus", type=int, default=0, metavar="N")
    server.add_argument("--node", default="", help="this node's name")
    many = server.add_argument_group("as root, for many accounts")
    many.add_argument("--server-uid", type=int, metavar="UID", help="the server's account")
    many.add_argument("--least-uid", type=int, default=1000, metavar="UID")
    many.add_argument("--allowed-group", default="", metavar="NAME")
    client = verbs.add_parser("attach", help="join stdin and stdout to the runner")
    client.add_argument("--spool", required=True)
    client.add_argument("--wait", type=float, default=0.0, metavar="SECONDS")
    verbs.add_parser("gpus", help="list this node's cards, one per line")
    options = parser.parse_args()
    if options.verb == "gpus":
        return _list_gpus()
    if options.verb == "attach":
        from .attach import attach  # noqa: PLC0415 - neither needs the other's modules

        return attach(options.spool, options.wait)
    from .account import admission  # noqa: PLC0415
    from .serve import serve  # noqa: PLC0415

    is_one = options.server_uid is None
    return serve(
        options.spool,
        replace=options.replace,
        simulate_gpus=options.simulate_gpus,
        node=options.node,
        admission=None
        if is_one
        else admission(options.server_uid, options.least_uid, options.allowed_group),
    )


def _list_gpus() -> int:
    from .probe import Probe  # noqa: PLC0415

    probe = Probe(0)
    cards, why = probe.gpus()
    probe.close()
    for card in cards:
        sys.stdout.write(f"{card.index} {card.uuid} {card.memory_mib} MiB {card.model}\n")
    if not cards:
        sys.stderr.write(f"no GPU: {why or 'NVML lists none'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
