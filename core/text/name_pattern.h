// A regular expression (PCRE2) that is looked for in names of layers and parameters.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace ds {

class NamePattern {
 public:
  enum class Case : uint8_t { kExact, kIgnored };

  // `key`: of the configuration, for the ConfigError where `text` is no regular expression.
  NamePattern(std::string_view key, std::string_view text, Case letters);
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;
  NamePattern& operator=(NamePattern&&) noexcept;

  bool found_in(std::string_view name) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

// "'a(' is no regular expression (at character 2)"; empty where it is one.
std::string why_no_pattern(std::string_view text);

}  // namespace ds
