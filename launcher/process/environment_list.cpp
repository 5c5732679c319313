#include "launcher/process/environment_list.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/error.h"

namespace ds {
namespace {

// What DeepSpeed's launcher passes on.
constexpr std::array<std::string_view, 5> kPrefixes = {"MLFLOW", "PYTHON", "MV2", "UCX", "NCCL"};

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

using Variables = std::map<std::string, std::string, std::less<>>;

Variables as_map(const std::vector<std::string>& entries) {
  Variables out;
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) out[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return out;
}

void add_entry(Variables& out, const Variables& ours, std::string_view entry,
               std::string_view where) {
  const size_t equals = std::min(entry.find('='), entry.size());
  const std::string name(trimmed(entry.substr(0, equals)));
  if (!is_name(name) && equals == entry.size()) {
    // It may be a value that lost its name: not to be shown.
    throw UsageError(fmt::format("{}: expected NAME=VALUE, or the NAME of a variable", where));
  }
  if (!is_name(name)) {
    throw UsageError(fmt::format("{}: '{}' is no name of a variable", where, name));
  }
  if (equals < entry.size()) {
    out[name] = entry.substr(equals + 1);
    return;
  }
  const auto set = ours.find(name);
  if (set == ours.end()) {
    throw UsageError(fmt::format("{}: {} has no value here; write {}=VALUE", where, name, name));
  }
  out[name] = set->second;
}

void add_file(Variables& out, const Variables& ours, const EnvironmentSources& sources) {
  std::string_view rest = sources.file_text;
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.empty() && line[0] != '#') {
      add_entry(out, ours, line, fmt::format("{}:{}", sources.file_name, number));
    }
  }
}

}  // namespace

std::vector<std::string> exported_environment(const EnvironmentSources& sources) {
  const Variables ours = as_map(sources.ours);
  Variables out;
  for (const auto& variable : ours) {
    const bool listed = std::ranges::any_of(
        kPrefixes, [&](std::string_view prefix) { return variable.first.starts_with(prefix); });
    if (listed) out.insert(variable);
  }
  add_file(out, ours, sources);
  for (const std::string& entry : sources.named) add_entry(out, ours, entry, "--env");
  std::vector<std::string> list;
  for (const auto& [name, value] : out) {
    if (value.find('\0') != std::string::npos) {
      throw UsageError(fmt::format("{}: the value of {} has a zero byte", sources.file_name, name));
    }
    list.push_back(fmt::format("{}={}", name, value));
  }
  return list;
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
