"""`omnigraph completion`: a script that makes a shell complete commands."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from omnigraph.cli import environment, render
from omnigraph.cli.completing import ASKED, FILES, cache_folder, write_table
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import Command, LazyGroup, command
from omnigraph.cli.parameters import Argument, CommandParameter

_BASH: Final = f"""_omnigraph() {{
    local IFS=$'\\n' word
    COMPREPLY=()
    for word in $(omnigraph {ASKED} bash "${{COMP_LINE:0:COMP_POINT}}" "$COMP_WORDBREAKS" \
        2>/dev/null); do
        if [ "$word" = "{FILES}" ]; then
            compopt -o filenames
            COMPREPLY+=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
        else
            COMPREPLY+=("$word")
        fi
    done
}}
complete -F _omnigraph omnigraph
"""
_ZSH: Final = f"""#compdef omnigraph
_omnigraph() {{
    local -a words
    words=("${{(@f)$(omnigraph {ASKED} zsh "$LBUFFER" 2>/dev/null)}}")
    if (( ${{words[(I){FILES}]}} )); then
        words=("${{(@)words:#{FILES}}}")
        _files
    fi
    compadd -Q -- $words
}}
compdef _omnigraph omnigraph
"""
_FISH: Final = f"""function __omnigraph_words
    for word in (omnigraph {ASKED} fish (commandline -cp) 2>/dev/null)
        if test $word = "{FILES}"
            __fish_complete_path (commandline -ct)
        else
            echo $word
        end
    end
end
complete -c omnigraph -f -a '(__omnigraph_words)'
"""
_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
# The kinds of names that parameters take.
_KINDS: Final = {
    "graph_address": "graph",
    "store": "graph",
    "branch": "branch",
    "from_": "branch",
    "create_from": "branch",
    "into": "branch",
    "against": "branch",
    "source": "branch",
    "older": "revision",
    "newer": "revision",
    "types": "type",
    "type_name": "type",
    "at": "revision",
    "to": "revision",
    "revision": "revision",
    "profile": "profile",
    "server": "server",
    "graph_id": "graph_id",
}


@command(
    'eval "$(omnigraph completion bash)"',
    "omnigraph completion fish > ~/.config/fish/completions/omnigraph.fish",
)
def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], Argument(metavar="bash|zsh|fish", help="The shell.")
    ],
) -> Status:
    """Print a script that completes commands, options and names in a shell.

    Names of branches, tags and types are those that commands have met; no graph is asked for them.
    """
    # The commands are a module above this one.
    from omnigraph.cli.main import app

    write_table(cache_folder(environment.variables()), completion_table(app))
    render.out().exactly(_SCRIPTS[shell])
    return Status.OK


def completion_table(group: LazyGroup | Command, path: str = "") -> dict[str, Any]:
    """The tree of commands: the options and arguments of each, and what they take."""
    table: dict[str, Any] = {"options": {}, "arguments": []}
    for each in group.params:
        taken = _taken(each, path)
        if each.is_option:
            if not each.hidden:
                for name in each.opts:
                    table["options"][name] = taken
        else:
            table["arguments"].append(taken)
    if isinstance(group, LazyGroup):
        names = [
            name
            for name in group.list_commands()
            if name not in group.entries or not group.entries[name].hidden
        ]
        table["commands"] = {
            name: completion_table(group.get_command(name), f"{path} {name}".strip())
            for name in names
        }
    return table


def _taken(each: CommandParameter, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {"value": not each.is_flag}
    kind = _KINDS.get(each.name)
    if each.name == "name" and path.startswith(("branch", "tag")):
        kind = path.split(maxsplit=1)[0]
    if kind is not None:
        found["kind"] = kind
    elif each.choices:
        found["choices"] = list(each.choices)
    elif each.metavar.startswith(("FILE", "PATH", "SOURCE", "TARGET")):
        found["kind"] = "file"
    return found
