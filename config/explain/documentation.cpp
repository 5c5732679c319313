#include "config/explain/documentation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "config/catalogue.h"

namespace ds {

namespace {

constexpr std::string_view kIntroduction = R"(# Configuration

<!-- Made by `dslaunch schema --markdown` of the fields() functions in config/. Do not edit. -->

`train.json` holds the DeepSpeed keys, unchanged, plus `model`, `data` and `train`: what DeepSpeed
leaves to a Python script. The file may be Hjson: comments (`#`, `//`, `/* */`), optional and
trailing commas, unquoted keys, quoteless strings up to the end of the line. A base64 text may
stand in place of the path. Integers may be written as `5e8` or in quotes (the three batch numbers
only without). Duplicate and misspelt keys are errors, at every depth, with position and the
nearest name.

A published DeepSpeed file is valid as it is, whatever release it was written for: keys that a
release passes over (those of accelerate, GPT-NeoX or another program around it, of its inference
engine, copied misprints), comments under a key that begins with `_`, `#`, `//` or `$`, and what is
wrong in a section that is switched off are notes. A key that nobody knows is an error where it is
nearly one of its section's, in `model`, `data`, `train`, `memory` and `communication`, where all
releases refuse it (parameters of optimizers and schedules, say), and on the command line. `null` is
as if the key were not given. What this build lacks is refused by name, and what else is wrong about
it does not count then. Without `model`, `data` and `train` the notes say what a run still needs;
where one of them is there the file is meant to be trained, and what a run needs and does not find
is an error.

The last column of the tables says what a key does in this build:

* *used*: it changes what a run does. Where only some of its values are there, others are refused.
* *always so*: there is one behaviour, which follows. A file that asks for another one is valid, and
  a note says what is so.
* *not yet*: refused by name where it differs from its default, unless its section is off.

What to know about all keys:

* `"auto"` stands for "not given": the default, or the value that is derived when the key is
  absent. Each one is a note with the value that it is taken as and, where the Trainer of Hugging
  Face puts an argument of its own there, with the name of that: set the key to its value. The peak
  of a warm-up (`scheduler.params.warmup_max_lr`) is the optimizer's learning rate then, as there.
* `"include": ["base.json"]` merges other files below this one; objects are merged, anything else
  is replaced, and `null` removes.
* On the command line: `a.b=v` sets, `+a.b=v` adds to a list or sets a key that is not there,
  `~a.b` removes.
* Paths are of files and folders of this machine: a URL or a name of the Hugging Face hub is refused
  with how to download it. A `~` at their front is the home folder, also in options
  (`--run-dir=~/runs/x`).
* What stands in a key whose name is that of a secret (`api_key`, `..._token`, `password`), also in
  one that does not exist, and the user in a URL are shown in no message and written into no file.
* `dslaunch check FILE` lists everything that is wrong, in the file and in the data, tokenizer,
  model and folders that it names, and keys without effect. An `nvme_path` that this machine has
  not is a note, since the disks of the hosts are their own: `dslaunch preflight` looks at those.
  Where nothing else is wrong it plans the run as its ranks would, and lists what they would refuse:
  for the ranks of `--num-ranks`, or for those of this machine, or for the fewest that the batch
  sizes fit where they do not fit these. `dslaunch explain FILE [KEY]` shows values and where they
  come from, with type and default as the optimizer, schedule or family of the file has them, and
  `dslaunch explain KEY` what each of them has; both take `--json`. `dslaunch schema` prints a JSON
  Schema.
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string default_text(const CatalogueEntry& entry) {
  if (entry.required) return "required";
  const bool is_set = entry.kind == EntryKind::kField && !entry.default_value.is_null();
  if (!is_set && !entry.unset_meaning.empty()) return entry.unset_meaning;
  if (entry.kind == EntryKind::kSection) return entry.optional_section ? "absent" : "";
  if (entry.kind != EntryKind::kField || entry.default_value.is_null()) return "";
  return fmt::format("`{}`", escaped(to_compact_json(entry.default_value)));
}

std::string row(const CatalogueEntry& entry, std::string_view section) {
  std::string meaning = escaped(entry.meaning);
  if (!entry.synonyms.empty()) {
    meaning += fmt::format(" Older names: `{}`.", fmt::join(entry.synonyms, "`, `"));
  }
  if (!entry.replacement.empty()) meaning += fmt::format(" Now `{}`.", entry.replacement);
  const std::string_view key = section.empty()
                                   ? std::string_view(entry.path)
                                   : std::string_view(entry.path).substr(section.size() + 1);
  return fmt::format("| `{}` | {}{}{} | {} | {} | {} |\n", key, escaped(entry.type),
                     entry.range.empty() ? "" : ", ", entry.range, default_text(entry), meaning,
                     escaped(entry.effect_text));
}

constexpr std::string_view kTableHead =
    "\n| key | type | default | meaning | here |\n| --- | --- | --- | --- | --- |\n";

// The keys that are always there, then a table for each type, family or mode that has its own.
std::string section_tables(const std::vector<CatalogueEntry>& entries, size_t section) {
  const std::string& path = entries[section].path;
  std::string always;
  std::vector<std::pair<std::string, std::string>> others;  // condition, rows
  for (size_t i = section + 1; i < entries.size() && entries[i].path.starts_with(path + "."); ++i) {
    const std::string& condition = entries[i].condition;
    if (condition.empty()) {
      always += row(entries[i], path);
      continue;
    }
    auto other = std::ranges::find(others, condition, &decltype(others)::value_type::first);
    if (other == others.end()) other = others.insert(other, {condition, ""});
    // Families that say the same of a key are one row.
    const std::string text = row(entries[i], path);
    if (other->second.find(text) == std::string::npos) other->second += text;
  }
  std::string out = always.empty() ? "" : fmt::format("{}{}", kTableHead, always);
  for (const auto& [condition, rows] : others) {
    out += fmt::format("\n### {}, where {}\n{}{}", path, condition, kTableHead, rows);
  }
  return out;
}

}  // namespace

std::string config_documentation() {
  const std::vector<CatalogueEntry> entries = catalogue();
  std::string out(kIntroduction);
  out += "\n## Top level\n";
  out += kTableHead;
  for (const CatalogueEntry& entry : entries) {
    const bool nested = entry.path.find('.') != std::string::npos;
    if (!nested && entry.kind != EntryKind::kSection) out += row(entry, "");
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const CatalogueEntry& section = entries[i];
    if (section.kind != EntryKind::kSection || section.path.find('.') != std::string::npos)
      continue;
    out += fmt::format("\n## {}\n\n{}\n", section.path, section.meaning);
    out += section_tables(entries, i);
  }
  return out;
}

}  // namespace ds
