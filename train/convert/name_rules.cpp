#define PCRE2_CODE_UNIT_WIDTH 8
#include "train/convert/name_rules.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/status/error.h"
#include "core/text/byte_order_mark.h"
#include "model/hf/renamed_tensors.h"

namespace ds {
namespace {

constexpr std::string_view kArrow = "=>";

std::string_view without_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 128> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct NameRules::Rule {
  struct Free {
    void operator()(pcre2_code* what) const { pcre2_code_free(what); }
    void operator()(pcre2_match_data* what) const { pcre2_match_data_free(what); }
  };
  std::string place;  // file and line
  std::string replacement;
  std::unique_ptr<pcre2_code, Free> code;

  Rule(std::string where, std::string_view pattern, std::string_view name)
      : place(std::move(where)), replacement(name) {
    int error = 0;
    size_t offset = 0;
    code.reset(pcre2_compile(units(pattern), pattern.size(), PCRE2_ANCHORED | PCRE2_ENDANCHORED,
                             &error, &offset, nullptr));
    if (code != nullptr) return;
    throw DataError(fmt::format("{}: the pattern '{}' is wrong at character {}: {}", place, pattern,
                                offset, message_of(error)));
  }

  bool matches(const std::string& name) const {
    const std::unique_ptr<pcre2_match_data, Free> match(
        pcre2_match_data_create_from_pattern(code.get(), nullptr));
    const int found = pcre2_match(code.get(), units(name), name.size(), 0, 0, match.get(), nullptr);
    if (found >= 0) return true;
    if (found == PCRE2_ERROR_NOMATCH) return false;
    throw DataError(fmt::format("{}: with the name {}: {}", place, name, message_of(found)));
  }

  std::string replaced(const std::string& name) const {
    std::array<PCRE2_UCHAR, 4096> out{};
    size_t size = out.size();
    const int made = pcre2_substitute(code.get(), units(name), name.size(), 0, 0, nullptr, nullptr,
                                      units(replacement), replacement.size(), out.data(), &size);
    if (made < 0) {
      throw DataError(
          fmt::format("{}: '{}' in place of {}: {}", place, replacement, name, message_of(made)));
    }
    return {reinterpret_cast<const char*>(out.data()), size};
  }
};

NameRules::NameRules() = default;
NameRules::NameRules(NameRules&&) noexcept = default;
NameRules& NameRules::operator=(NameRules&&) noexcept = default;
NameRules::~NameRules() = default;

NameRules::NameRules(const std::string& path, std::string_view text) {
  text = without_mark(text);
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = without_blanks(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::string place = fmt::format("{}, line {}", path, number);
    const size_t arrow = line.find(kArrow);
    if (arrow == std::string_view::npos || without_blanks(line.substr(0, arrow)).empty()) {
      throw DataError(fmt::format("{}: '{}', expected PATTERN => NAME", place, line));
    }
    rules_.push_back(std::make_unique<Rule>(place, without_blanks(line.substr(0, arrow)),
                                            without_blanks(line.substr(arrow + kArrow.size()))));
  }
}

const NameRules::Rule* NameRules::rule_of(const std::string& name) const {
  for (const auto& rule : rules_) {
    if (rule->matches(name)) return rule.get();
  }
  return nullptr;
}

std::string NameRules::applied(const std::string& name) const {
  const Rule* const rule = rule_of(name);
  return rule != nullptr ? rule->replaced(name) : name;
}

std::vector<std::string> NameRules::idle(std::span<const std::string> names) const {
  std::set<const Rule*> busy;
  for (const std::string& name : names) busy.insert(rule_of(name));
  std::vector<std::string> places;
  for (const auto& rule : rules_) {
    if (!busy.contains(rule.get())) places.push_back(rule->place);
  }
  return places;
}

std::vector<std::string> unwrapped(std::span<const std::string> stored) {
  const size_t wrapper = wrapper_bytes(stored);
  std::vector<std::string> names;
  for (const std::string& name : stored) names.push_back(name.substr(wrapper));
  return names;
}

std::map<std::string, std::string> renamed(std::span<const std::string> stored,
                                           const NameRules& rules) {
  const std::vector<std::string> inside = unwrapped(stored);
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < stored.size(); ++i) {
    const std::string name = rules.applied(inside[i]);
    if (name.empty()) continue;
    const auto [place, is_new] = names.emplace(name, stored[i]);
    if (!is_new) {
      throw DataError(fmt::format("{} and {} would both be {}; change the rules of --map",
                                  place->second, stored[i], name));
    }
  }
  return names;
}

}  // namespace ds
