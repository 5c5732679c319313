#include "core/text/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/status/error.h"

namespace ds {

struct NamePattern::Code {
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  ~Code() {
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
};

NamePattern::NamePattern(std::string_view key, std::string_view text, Case letters)
    : code_(std::make_unique<Code>()) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    letters == Case::kIgnored ? PCRE2_CASELESS : 0, &error, &offset, nullptr);
  if (code_->code == nullptr) {
    throw ConfigError(
        fmt::format("{}: '{}' is no regular expression (at character {})", key, text, offset));
  }
  code_->match = pcre2_match_data_create_from_pattern(code_->code, nullptr);
}

std::string why_no_pattern(std::string_view text) {
  try {
    const NamePattern compiled("", text, NamePattern::Case::kExact);
    return "";
  } catch (const ConfigError& error) {
    return std::string(error.what()).substr(2);  // without the key, which is empty, and ": "
  }
}

NamePattern::~NamePattern() = default;
NamePattern::NamePattern(NamePattern&&) noexcept = default;
NamePattern& NamePattern::operator=(NamePattern&&) noexcept = default;

bool NamePattern::found_in(std::string_view name) const {
  return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0,
                     code_->match, nullptr) >= 0;
}

}  // namespace ds
