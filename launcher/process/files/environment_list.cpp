#include "launcher/process/files/environment_list.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "core/status/error.h"
#include "core/text/byte_order_mark.h"
#include "launcher/decide/text/environment.h"
#include "launcher/decide/text/shell_value.h"

namespace ds {
namespace {

// What DeepSpeed's launcher passes on.
constexpr std::array<std::string_view, 5> kPrefixes = {"MLFLOW", "PYTHON", "MV2", "UCX", "NCCL"};

constexpr std::string_view kThreads = "OMP_NUM_THREADS=";

bool is_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::ranges::all_of(name, fits);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

// "NAME=text", or "NAME" without a text.
struct Line {
  std::string name;
  std::optional<std::string> text;
};

Line read_line(std::string_view entry, std::string_view where) {
  const size_t equals = std::min(entry.find('='), entry.size());
  Line line{.name = std::string(trimmed(entry.substr(0, equals))), .text = std::nullopt};
  if (!is_name(line.name) && equals == entry.size()) {
    // It may be a value that lost its name: not to be shown.
    throw UsageError(fmt::format("{}: expected NAME=VALUE, or the NAME of a variable", where));
  }
  if (!is_name(line.name)) {
    throw UsageError(fmt::format("{}: '{}' is no name of a variable", where, line.name));
  }
  if (equals < entry.size()) line.text = entry.substr(equals + 1);
  if (line.text && line.text->find('\0') != std::string::npos) {
    throw UsageError(fmt::format("{}: the value of {} has a zero byte", where, line.name));
  }
  return line;
}

std::string our_value(const Environment& ours, const std::string& name, std::string_view where) {
  const auto set = ours.find(name);
  if (set == ours.end()) {
    throw UsageError(fmt::format("{}: {} has no value here; write {}=VALUE", where, name, name));
  }
  return set->second;
}

std::string_view without_export(std::string_view line) {
  constexpr std::string_view kExport = "export";
  const bool exports = line.starts_with(kExport) && line.size() > kExport.size() &&
                       (line[kExport.size()] == ' ' || line[kExport.size()] == '\t');
  return exports ? trimmed(line.substr(kExport.size())) : line;
}

// What is gathered of all sources. A text of the files has its place in their order, because it may
// name those before it.
class Gathered {
 public:
  explicit Gathered(const Environment& ours) : ours_(ours) {
    for (const auto& variable : ours) {
      const bool listed = std::ranges::any_of(
          kPrefixes, [&](std::string_view prefix) { return variable.first.starts_with(prefix); });
      if (listed) values_.insert(variable);
    }
  }

  void add_file(const EnvironmentFile& file) {
    std::string_view rest = without_mark(file.text);
    for (int number = 1; !rest.empty(); ++number) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = without_export(trimmed(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (!line.empty() && line[0] != '#') {
        add_file_line(line, file.values, fmt::format("{}:{}", file.name, number));
      }
    }
  }

  void add_named(const std::string& entry) {
    Line line = read_line(entry, "--env");
    add_value(line.name, line.text ? *std::move(line.text) : our_value(ours_, line.name, "--env"));
  }

  ExportedVariables take() {
    ExportedVariables out;
    for (const auto& [name, value] : values_)
      out.values.push_back(fmt::format("{}={}", name, value));
    for (const auto& [name, text] : texts_) {
      out.shell_values.push_back(fmt::format("{}={}", name, text));
    }
    out.notes = std::move(notes_);
    return out;
  }

 private:
  void add_file_line(std::string_view entry, ValuesOfFile values, const std::string& where) {
    Line line = read_line(entry, where);
    if (line.text && values == ValuesOfFile::kForShell) {
      add_text(line.name, std::string(trimmed(*line.text)), where);
      return;
    }
    if (line.text) note_literal(line.name, *line.text, where);
    add_value(line.name, line.text ? *std::move(line.text) : our_value(ours_, line.name, where));
  }

  void add_value(const std::string& name, std::string value) {
    std::erase_if(texts_, [&](const auto& text) { return text.first == name; });
    values_[name] = std::move(value);
  }

  void add_text(const std::string& name, std::string text, const std::string& where) {
    if (!read_shell_value(text, ours_).left.empty()) {
      notes_.push_back(
          fmt::format("{}: {} has $(...), `...` or another form for a shell alone, which is taken "
                      "as it is; $NAME, ${{NAME}}, ~ and quotes are read",
                      where, name));
    }
    values_.erase(name);
    const auto there = std::ranges::find(texts_, name, &std::pair<std::string, std::string>::first);
    if (there != texts_.end()) {
      there->second = std::move(text);
    } else {
      texts_.emplace_back(name, std::move(text));
    }
  }

  // Said once, for the first value that a shell would read otherwise.
  void note_literal(const std::string& name, const std::string& text, const std::string& where) {
    const ShellValue read = read_shell_value(text, ours_);
    if (literal_is_noted_ || (read.value == text && read.left.empty())) return;
    literal_is_noted_ = true;
    notes_.push_back(
        fmt::format("{}: {} is taken as it is, with its quotes, $ and ~; those of .deepspeed_env "
                    "are read as a shell does",
                    where, name));
  }

  const Environment& ours_;
  Environment values_;
  std::vector<std::pair<std::string, std::string>> texts_;
  std::vector<std::string> notes_;
  bool literal_is_noted_ = false;
};

}  // namespace

ExportedVariables exported_environment(const EnvironmentSources& sources) {
  const Environment ours = as_environment(sources.ours);
  Gathered gathered(ours);
  for (const EnvironmentFile& file : sources.files) gathered.add_file(file);
  for (const std::string& entry : sources.named) gathered.add_named(entry);
  return gathered.take();
}

std::vector<std::string> with_shell_values(std::vector<std::string> environment,
                                           const std::vector<std::string>& shell_values) {
  Environment variables = as_environment(environment);
  for (const std::string& entry : shell_values) {
    const size_t equals = std::min(entry.find('='), entry.size());
    const std::string name = entry.substr(0, equals);
    const std::string value =
        read_shell_value(std::string_view(entry).substr(std::min(equals + 1, entry.size())),
                         variables)
            .value;
    environment.push_back(fmt::format("{}={}", name, value));
    variables[name] = value;
  }
  return environment;
}

std::vector<std::string> without_threads(std::vector<std::string> entries) {
  std::erase_if(entries, [](const std::string& entry) { return entry.starts_with(kThreads); });
  return entries;
}

std::vector<std::string> rank_environment(const std::vector<std::string>& entries, int threads) {
  std::vector<std::string> out = without_threads(entries);
  out.push_back(fmt::format("{}{}", kThreads, threads));
  return out;
}

std::string names_of(const ExportedVariables& exported) {
  std::vector<std::string> names;
  for (const auto* const list : {&exported.values, &exported.shell_values}) {
    for (const std::string& entry : *list) names.push_back(entry.substr(0, entry.find('=')));
  }
  std::ranges::sort(names);
  names.emplace_back(kThreads.substr(0, kThreads.size() - 1));
  return fmt::format("{}", fmt::join(names, " "));
}

std::vector<std::string> with_last_values(const std::vector<std::string>& entries) {
  std::set<std::string_view> seen;
  std::vector<std::string> out;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (seen.insert(std::string_view(*entry).substr(0, entry->find('='))).second)
      out.push_back(*entry);
  }
  std::ranges::reverse(out);
  return out;
}

}  // namespace ds
