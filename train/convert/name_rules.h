// Under which names tensors of others go into a folder (pure): wrappers of modules are taken off,
// then rules of the user's apply. Nothing here knows a family's names.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

// The lines of a file with rules, "PATTERN => NAME": a regular expression (PCRE2) that has to match
// the whole name, and what comes in its place, with $1 for its groups; nothing behind the arrow
// leaves the tensor out. The first rule that matches counts. Empty lines and those that begin with
// # are passed over.
class NameRules {
 public:
  NameRules();
  // DataError naming `path`, the line and what is wrong in it.
  NameRules(const std::string& path, std::string_view text);
  NameRules(NameRules&&) noexcept;
  NameRules& operator=(NameRules&&) noexcept;
  NameRules(const NameRules&) = delete;  // owns compiled patterns
  ~NameRules();

  // The new name; empty: left out. As it was where no rule matches.
  std::string applied(const std::string& name) const;
  // The places of those that apply to none of the names: "names.txt, line 3".
  std::vector<std::string> idle(std::span<const std::string> names) const;

 private:
  struct Rule;
  const Rule* rule_of(const std::string& name) const;  // null: none

  std::vector<std::unique_ptr<Rule>> rules_;
};

// The names without those of wrappers that all begin with, as rules see them.
std::vector<std::string> unwrapped(std::span<const std::string> stored);

// From the new name to the stored one. Wrappers' names ("module.", "_forward_module.",
// "_orig_mod.") go where all names begin with them. DataError for two tensors of one new name.
std::map<std::string, std::string> renamed(std::span<const std::string> stored,
                                           const NameRules& rules);

}  // namespace ds
