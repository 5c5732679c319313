#include "cli/completion/script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>

namespace ds {
namespace {

// Between single quotes of any of the three shells.
std::string shell_quoted(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + out + "'";
}

std::vector<std::string> option_names(const VerbOutline& verb) {
  std::vector<std::string> names;
  for (const OptionOutline& option : verb.options) {
    for (const std::string& name : option.names) {
      // DeepSpeed's spellings with underscores are understood, and not proposed.
      if (name.find('_') == std::string::npos) names.push_back(name);
    }
  }
  return names;
}

// One word of each, as shells split lists.
template <class Range, class Word = std::identity>
std::string word_list(const Range& range, Word word = {}) {
  std::string out;
  for (const auto& each : range) {
    if (!out.empty()) out += ' ';
    out += std::invoke(word, each);
  }
  return out;
}

std::string verb_names(std::span<const VerbOutline> verbs) {
  return word_list(verbs, &VerbOutline::name);
}

using Keys = std::span<const CompletedKey>;

std::string key_paths(Keys keys) { return word_list(keys, &CompletedKey::path); }

// Paths of the keys that have the same words as values, by these words.
std::map<std::vector<std::string>, std::vector<std::string>> keys_by_values(Keys keys) {
  std::map<std::vector<std::string>, std::vector<std::string>> out;
  for (const CompletedKey& key : keys) {
    if (!key.values.empty()) out[key.values].push_back(key.path);
  }
  return out;
}

// The bash command that fills COMPREPLY with what may stand there.
std::string bash_values(const OptionOutline& option) {
  switch (option.kind) {
    case ValueKind::kChoice:
      return fmt::format("__dslaunch_words {}", shell_quoted(word_list(option.choices)));
    case ValueKind::kFile:
      return "__dslaunch_paths -f";
    case ValueKind::kDirectory:
      return "__dslaunch_paths -d";
    case ValueKind::kKey:
      return "__dslaunch_key_paths ''";
    case ValueKind::kFileOrKey:
      return "__dslaunch_paths -f; __dslaunch_key_paths ''";
    case ValueKind::kKeyValue:
      return "__dslaunch_key_paths =";
    case ValueKind::kNone:
    case ValueKind::kText:
      return ":";
  }
  return ":";
}

constexpr const char* kBashHead =
    R"(# bash completion for dslaunch; made by `dslaunch completion bash`
__dslaunch_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
__dslaunch_paths() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}
# Up to the next dot; $1 is what follows a whole key.
__dslaunch_key_paths() {
  local key rest last=
  compopt -o nospace 2>/dev/null
  for key in $__dslaunch_keys; do
    [[ $key == "$cur"* ]] || continue
    rest=${key:${#cur}}
    if [[ $rest == *.* ]]; then key=$cur${rest%%.*}.; else key=$key$1; fi
    [[ $key == "$last" ]] || COMPREPLY+=("$key")
    last=$key
  done
}
)";

// `place` counts the words without a name before the one that is completed.
constexpr const char* kBashBody = R"(_dslaunch() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb=run first=1 place=0 i
  local assigned=
  COMPREPLY=()
  if [[ $cur == "=" ]]; then cur= assigned=$prev
  elif [[ $prev == "=" ]]; then prev=${COMP_WORDS[COMP_CWORD-2]} assigned=$prev; fi
  if [[ $COMP_CWORD -gt 1 && " $__dslaunch_verbs " == *" ${COMP_WORDS[1]} "* ]]; then
    verb=${COMP_WORDS[1]} first=2
  fi
  for ((i = first; i < COMP_CWORD; i++)); do
    case "${COMP_WORDS[i]}" in
      -*) if __dslaunch_takes_value "$verb" "${COMP_WORDS[i]}"; then
            ((i++)); [[ ${COMP_WORDS[i]} == "=" ]] && ((i++))
          fi ;;
      =) ((i++)) ;;
      *) ((place++)) ;;
    esac
  done
  if __dslaunch_takes_value "$verb" "$prev"; then __dslaunch_value "$verb" "$prev"; return; fi
  if [[ -n $assigned ]]; then __dslaunch_key_values "$assigned"; return; fi
  if [[ $cur == -* ]]; then __dslaunch_options "$verb"; return; fi
  if [[ $COMP_CWORD -eq 1 ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -W "$__dslaunch_verbs --help --version" -- "$cur"
                             compgen -f -- "$cur")
    return
  fi
  __dslaunch_place "$verb" "$place"
}
complete -F _dslaunch dslaunch
)";

std::string bash_takes_value(std::span<const VerbOutline> verbs) {
  std::string text = "__dslaunch_takes_value() {\n  case \"$1 $2\" in\n";
  for (const VerbOutline& verb : verbs) {
    std::vector<std::string> patterns;
    for (const OptionOutline& option : verb.options) {
      if (option.kind == ValueKind::kNone) continue;
      for (const std::string& name : option.names)
        patterns.push_back(shell_quoted(verb.name + " " + name));
    }
    if (!patterns.empty()) text += fmt::format("    {}) return 0 ;;\n", fmt::join(patterns, "|"));
  }
  return text + "  esac\n  return 1\n}\n";
}

std::string bash_value(std::span<const VerbOutline> verbs) {
  std::string text = "__dslaunch_value() {\n  case \"$1 $2\" in\n";
  for (const VerbOutline& verb : verbs) {
    for (const OptionOutline& option : verb.options) {
      if (option.kind == ValueKind::kNone || option.kind == ValueKind::kText) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names)
        patterns.push_back(shell_quoted(verb.name + " " + name));
      text += fmt::format("    {}) {} ;;\n", fmt::join(patterns, "|"), bash_values(option));
    }
  }
  return text + "  esac\n}\n";
}

std::string bash_options_and_places(std::span<const VerbOutline> verbs) {
  std::string options = "__dslaunch_options() {\n  case \"$1\" in\n";
  std::string places = "__dslaunch_place() {\n  case \"$1 $2\" in\n";
  for (const VerbOutline& verb : verbs) {
    options += fmt::format("    {}) __dslaunch_words {} ;;\n", verb.name,
                           shell_quoted(word_list(option_names(verb))));
    for (size_t i = 0; i < verb.places.size(); ++i) {
      const std::string pattern = verb.places[i].repeats
                                      ? fmt::format("{}[{}-9]*", shell_quoted(verb.name + " "), i)
                                      : shell_quoted(fmt::format("{} {}", verb.name, i));
      places += fmt::format("    {}) {} ;;\n", pattern, bash_values(verb.places[i]));
    }
  }
  return options + "  esac\n}\n" + places + "  esac\n}\n";
}

std::string bash_key_values(Keys keys) {
  std::string text = "__dslaunch_key_values() {\n  case \"$1\" in\n";
  for (const auto& [values, paths] : keys_by_values(keys)) {
    text += fmt::format("    {}) __dslaunch_words {} ;;\n", fmt::join(paths, "|"),
                        shell_quoted(word_list(values)));
  }
  return text + "  esac\n}\n";
}

std::string bash_script(std::span<const VerbOutline> verbs, Keys keys) {
  return fmt::format("{}__dslaunch_verbs={}\n__dslaunch_keys={}\n{}{}{}{}{}", kBashHead,
                     shell_quoted(verb_names(verbs)), shell_quoted(key_paths(keys)),
                     bash_takes_value(verbs), bash_value(verbs), bash_options_and_places(verbs),
                     bash_key_values(keys), kBashBody);
}

// In a specification of _arguments, brackets and colons have a meaning of their own.
std::string zsh_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionOutline& option) {
  switch (option.kind) {
    case ValueKind::kChoice:
      return fmt::format("({})", fmt::join(option.choices, " "));
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kDirectory:
      return "_files -/";
    case ValueKind::kKey:
      return " _dslaunch_keys";
    case ValueKind::kFileOrKey:
      return " _dslaunch_files_and_keys";
    case ValueKind::kKeyValue:
      return " _dslaunch_keys =";
    case ValueKind::kNone:
    case ValueKind::kText:
      return " ";
  }
  return " ";
}

std::string zsh_arguments(const VerbOutline& verb) {
  std::string text;
  for (const OptionOutline& option : verb.options) {
    for (const std::string& name : option.names) {
      if (name.find('_') != std::string::npos) continue;
      const bool is_long = name.starts_with("--");
      const std::string value =
          option.kind == ValueKind::kNone
              ? ""
              : fmt::format(":{}:{}", zsh_escaped(option.type), zsh_action(option));
      text += fmt::format(
          " \\\n        {}",
          shell_quoted(fmt::format("{}{}[{}]{}", name, is_long && !value.empty() ? "=" : "",
                                   zsh_escaped(option.description), value)));
    }
  }
  for (const OptionOutline& place : verb.places) {
    text +=
        fmt::format(" \\\n        {}",
                    shell_quoted(fmt::format("{}:{}:{}", place.repeats ? "*" : "",
                                             zsh_escaped(place.names.front()), zsh_action(place))));
  }
  return text;
}

// $1 is what follows a whole key.
std::string zsh_keys(Keys keys) {
  std::string text = fmt::format(
      "_dslaunch_keys() {{\n  local key=${{PREFIX%%=*}}\n  if compset -P '*='; then\n"
      "    case $key in\n");
  for (const auto& [values, paths] : keys_by_values(keys)) {
    text +=
        fmt::format("      {}) compadd -- {} ;;\n", fmt::join(paths, "|"), fmt::join(values, " "));
  }
  return text + fmt::format(
                    "    esac\n    return\n  fi\n  local -a keys=({})\n"
                    "  _multi_parts -S \"$1\" . keys\n}}\n"
                    "_dslaunch_files_and_keys() {{ _files; _dslaunch_keys '' }}\n",
                    key_paths(keys));
}

std::string zsh_script(std::span<const VerbOutline> verbs, Keys keys) {
  std::string text =
      "#compdef dslaunch\n# zsh completion for dslaunch; made by `dslaunch completion zsh`\n" +
      zsh_keys(keys) + "_dslaunch() {\n  local -a verbs=(\n";
  for (const VerbOutline& verb : verbs) {
    text += fmt::format("    {}\n", shell_quoted(verb.name + ":" + zsh_escaped(verb.summary)));
  }
  text +=
      "  )\n"
      "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
      "    _describe -t verbs verb verbs\n    _files\n    return\n  fi\n"
      "  local verb=run\n"
      "  if [[ -n ${verbs[(r)$words[2]:*]} ]]; then\n"
      "    verb=$words[2]\n    shift words\n    (( CURRENT-- ))\n  fi\n"
      "  case $verb in\n";
  for (const VerbOutline& verb : verbs) {
    text += fmt::format("    {})\n      _arguments -S{} ;;\n", verb.name, zsh_arguments(verb));
  }
  return text +
         "  esac\n}\n"
         "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _dslaunch \"$@\"; else compdef "
         "_dslaunch dslaunch; fi\n";
}

std::string fish_values(const OptionOutline& option) {
  switch (option.kind) {
    case ValueKind::kNone:
      return "";
    case ValueKind::kChoice:
      return fmt::format(" -x -a {}", shell_quoted(word_list(option.choices)));
    case ValueKind::kFile:
      return " -r -F";
    case ValueKind::kDirectory:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::kText:
      return " -x";
    case ValueKind::kKey:
    case ValueKind::kFileOrKey:
      return " -r -F -a '(__dslaunch_keys)'";
    case ValueKind::kKeyValue:
      return " -r -F -a '(__dslaunch_keys =)'";
  }
  return "";
}

std::string fish_verb(const VerbOutline& verb) {
  const std::string condition = shell_quoted("__dslaunch_is " + verb.name);
  std::string text = fmt::format("complete -c dslaunch -n __dslaunch_first -f -a {} -d {}\n",
                                 verb.name, shell_quoted(verb.summary));
  for (const OptionOutline& option : verb.options) {
    std::string names;
    for (const std::string& name : option.names) {
      if (name.find('_') != std::string::npos) continue;
      names += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2))
                                      : fmt::format(" -s {}", name.substr(1));
    }
    text += fmt::format("complete -c dslaunch -n {}{}{} -d {}\n", condition, names,
                        fish_values(option), shell_quoted(option.description));
  }
  for (const OptionOutline& place : verb.places) {
    if (place.kind == ValueKind::kChoice) {
      text += fmt::format("complete -c dslaunch -n {} -f -a {}\n", condition,
                          shell_quoted(word_list(place.choices)));
    } else if (place.kind == ValueKind::kKey || place.kind == ValueKind::kKeyValue) {
      text += fmt::format("complete -c dslaunch -n {}{}\n", condition, fish_values(place));
    }
  }
  return text;
}

std::string fish_keys(Keys keys) {
  std::string text =
      "function __dslaunch_keys\n"
      "    set -l typed (commandline -ct)\n"
      "    if string match -q -- '*=*' $typed\n"
      "        set -l key (string split -m1 = -- $typed)[1]\n"
      "        switch $key\n";
  for (const auto& [values, paths] : keys_by_values(keys)) {
    text += fmt::format("            case {}\n                printf '%s\\n' $key={}\n",
                        fmt::join(paths, " "), fmt::join(values, " $key="));
  }
  return text + fmt::format(
                    "        end\n        return\n    end\n"
                    "    set -l keys {}\n"
                    "    string match -r -- '^'(string escape --style=regex -- $typed)'[^.]*\\.?' "
                    "$keys | sort -u | string replace -r '([^.])$' \"\\$1$argv[1]\"\n"
                    "end\n",
                    key_paths(keys));
}

// Files stay proposed everywhere, as fish does by itself: most words without a name are some.
std::string fish_script(std::span<const VerbOutline> verbs, Keys keys) {
  std::string text = fmt::format(
      "# fish completion for dslaunch; made by `dslaunch completion fish`\n"
      "function __dslaunch_verb\n"
      "    set -l words (commandline -opc)\n"
      "    if test (count $words) -gt 1; and contains -- $words[2] {}\n"
      "        echo $words[2]\n"
      "    else if test (count $words) -gt 1\n"
      "        echo run\n"
      "    end\n"
      "end\n"
      "function __dslaunch_first\n"
      "    test (count (commandline -opc)) -eq 1\n"
      "end\n"
      "function __dslaunch_is\n"
      "    test \"$(__dslaunch_verb)\" = $argv[1]\n"
      "end\n",
      verb_names(verbs));
  text += fish_keys(keys);
  for (const VerbOutline& verb : verbs) text += fish_verb(verb);
  return text;
}

}  // namespace

std::string completion_script(Shell shell, std::span<const VerbOutline> verbs, Keys keys) {
  switch (shell) {
    case Shell::kBash:
      return bash_script(verbs, keys);
    case Shell::kZsh:
      return zsh_script(verbs, keys);
    case Shell::kFish:
      return fish_script(verbs, keys);
  }
  return "";
}

}  // namespace ds
