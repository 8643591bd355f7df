"""`stoker completion`: the script that makes a shell complete our commands.

Each script hands the words so far to `stoker __complete` (complete.py) and shows what it answers:
lines of `kind TAB value TAB description`, where kind `file` or `folder` means that the shell
completes a path itself. Nothing that goes wrong there reaches the prompt.
"""

from __future__ import annotations

import json

import click

from .command import command as declare
from .command import json_option
from .say import refuse

BASH = r"""# stoker: completion for bash
_stoker() {
    local kind value about typed=${COMP_LINE:0:COMP_POINT}
    COMPREPLY=()
    while IFS=$'\t' read -r kind value about; do
        case $kind in
            word) COMPREPLY+=("$value") ;;
            open) COMPREPLY+=("$value"); compopt -o nospace 2>/dev/null ;;
            file) compopt -o filenames 2>/dev/null
                while IFS= read -r value; do COMPREPLY+=("$value"); done < <(compgen -f -- "$2") ;;
            folder) compopt -o filenames 2>/dev/null
                while IFS= read -r value; do COMPREPLY+=("$value"); done < <(compgen -d -- "$2") ;;
        esac
    done < <("$1" __complete bash "$typed" 2>/dev/null </dev/null)
}
complete -o nosort -F _stoker stoker 2>/dev/null || complete -F _stoker stoker
"""

ZSH = r"""#compdef stoker
# stoker: completion for zsh
_stoker() {
    local kind value about paths
    local -a plain open
    while IFS=$'\t' read -r kind value about; do
        case $kind in
            word) plain+=("${value//:/\\:}:$about") ;;
            open) open+=("${value//:/\\:}:$about") ;;
            *) paths=$kind ;;
        esac
    done < <("${(Q)words[1]}" __complete zsh "${(Q)words[@]:1:$((CURRENT-1))}" 2>/dev/null </dev/null)
    (( $#plain )) && _describe -V stoker plain
    (( $#open )) && _describe -V stoker open -S ''
    [[ $paths == file ]] && _files
    [[ $paths == folder ]] && _files -/
    return 0
}
if [[ $funcstack[1] == _stoker ]]; then _stoker "$@"; else compdef _stoker stoker; fi
"""

FISH = r"""# stoker: completion for fish
function __stoker_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete fish $words[2..-1] 2>/dev/null </dev/null | while read -l -d \t kind value about
        switch $kind
            case word open
                printf '%s\t%s\n' $value $about
            case file
                __fish_complete_path (commandline -ct)
            case folder
                __fish_complete_directories (commandline -ct)
        end
    end
end
complete -c stoker -f -k -a '(__stoker_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@declare("completion")
@click.argument("shell", metavar="bash|zsh|fish")
@json_option
def command(shell: str, as_json: bool) -> None:
    script = SCRIPTS.get(shell)
    if script is None:
        refuse("usage.no_shell", "shell", value=shell, known=", ".join(SCRIPTS))
    print(json.dumps({"shell": shell, "script": script}) if as_json else script, end="")
