#include "data/tokenizer/split/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/status/error.h"
#include "core/text/utf8.h"
#include "data/text/text_kind.h"
#include "data/tokenizer/split/scripts.h"

namespace ds {
namespace {

// An attempt at one place of the text may take so many steps, and look so many bytes ahead, as part
// of what every byte has to itself: some ten times what the patterns of known tokenizers take for
// words of natural text.
constexpr uint32_t kFreeSteps = 200;
constexpr size_t kFreeBytes = 512;
// Beyond that it is charged. Long runs of spaces or letters, as texts have them, are well within
// the allowance.
constexpr int64_t kAllowance = 20'000'000;
constexpr int64_t kAllowancePerByte = 500;
constexpr int64_t kStepsGrowth = 8;
constexpr int64_t kMostSteps = int64_t{1} << 30;  // PCRE2 counts in 32 bits
constexpr size_t kJitStackBytes = size_t{16} << 20;
// PCRE2 has no more room for what it compiles.
constexpr size_t kLongestPattern = size_t{64} << 10;  // bytes

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(error, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

// What Oniguruma takes for part of a word in brackets: letters, marks, digits, signs that join, and
// letters in circles and squares; and what it takes for one besides outside of them.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169})"
    R"(\x{1f170}-\x{1f189})";
constexpr std::string_view kLatinNumbers = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

// A class that PCRE2 and Oniguruma, which the patterns of tokenizers are written for, take to be
// different characters, and what Oniguruma's is called in PCRE2. That of a word is told apart.
struct ClassName {
  char name;
  std::string_view inside;   // of brackets
  std::string_view outside;  // of them
};
constexpr std::array kClassNames{
    ClassName{'s', R"(\p{wspace})", R"(\p{wspace})"},  // U+180E is one in PCRE2
    ClassName{'S', R"(\P{wspace})", R"(\P{wspace})"},
    ClassName{'w', kWord, ""},
    ClassName{'W', "", ""},
    ClassName{'h', "0-9A-Fa-f", "[0-9A-Fa-f]"},
    ClassName{'H', "", "[^0-9A-Fa-f]"},
};

// For messages: without the end of a long one.
std::string shown(std::string_view pattern) {
  constexpr size_t kShown = 200;
  if (pattern.size() <= kShown) return std::string(pattern);
  return std::string(whole_characters(pattern.substr(0, kShown))) + "...";
}

[[noreturn]] void refuse_syntax(std::string_view pattern, const std::string& what) {
  throw Unsupported(
      fmt::format("pre-tokenizer pattern '{}': {} is not supported", shown(pattern), what));
}

// \p{Han} and the like are scripts of characters; what PCRE2 takes by default are the scripts that
// a character may stand in.
std::string property_in_words_of_pcre(std::string_view pattern, size_t& i) {
  constexpr size_t kLongestName = 64;
  const size_t length = pattern.substr(i, kLongestName).find('}');
  if (length == std::string_view::npos || length < 2) return std::string(pattern.substr(i - 1, 2));
  const size_t end = i + length;
  const std::string whole(pattern.substr(i - 1, length + 2));
  std::string name = whole.substr(3, whole.size() - 4);
  const bool negated = name.starts_with('^');
  if (negated) name.erase(0, 1);
  i = end;
  if (!is_script(name)) return whole;
  return whole.substr(0, 3) + (negated ? "^sc:" : "sc:") + name + "}";
}

std::string escape_in_words_of_pcre(std::string_view pattern, size_t& i, bool inside) {
  const char name = pattern[++i];
  if ((name == 'p' || name == 'P') && i + 1 < pattern.size() && pattern[i + 1] == '{')
    return property_in_words_of_pcre(pattern, i);
  const auto known = std::ranges::find(kClassNames, name, &ClassName::name);
  if (known == kClassNames.end()) return {'\\', name};
  if (inside && known->inside.empty())
    refuse_syntax(pattern, fmt::format("\\{} in brackets", name));
  if (!inside && known->outside.empty())
    return fmt::format("[{}{}{}]", name == 'W' ? "^" : "", kWord, kLatinNumbers);
  return std::string(inside ? known->inside : known->outside);
}

// The pattern as PCRE2 has it. What means another thing there and has no words is refused.
std::string in_words_of_pcre(std::string_view pattern) {
  std::string out;
  bool inside = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      out += escape_in_words_of_pcre(pattern, i, inside);
      continue;
    }
    if (inside && c == '[') refuse_syntax(pattern, "a set within a set");
    if (inside && rest.starts_with("&&")) refuse_syntax(pattern, "&& between sets");
    if (!inside && rest.starts_with("}+")) refuse_syntax(pattern, "+ behind a count");
    if (!inside && rest.starts_with("{,")) refuse_syntax(pattern, "a count without its least");
    if (c == '[') inside = true;
    if (c == ']') inside = false;
    out.push_back(c);
  }
  return out;
}

size_t next_character(std::string_view text, size_t at) {
  do {
    ++at;
  } while (at < text.size() && is_continuation(text[at]));
  return at;
}

}  // namespace

struct PatternWork::Scratch {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(size_t{64} << 10, kJitStackBytes, nullptr);
  Scratch() { pcre2_jit_stack_assign(context, nullptr, stack); }
  Scratch(const Scratch&) = delete;
  ~Scratch() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
  }
};

PatternWork::PatternWork(size_t text_bytes) { begin_text(text_bytes); }
void PatternWork::begin_text(size_t text_bytes) {
  left_ = kAllowance + kAllowancePerByte * static_cast<int64_t>(text_bytes);
  room_ = WritingRoom(text_bytes);
}
PatternWork::~PatternWork() = default;

struct Regex::Code {
  pcre2_code* compiled = nullptr;
  ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(std::string_view pattern) : pattern_(pattern), code_(std::make_unique<Code>()) {
  int error = 0;
  size_t offset = 0;
  if (pattern.size() > kLongestPattern) {
    throw DataError(fmt::format("pre-tokenizer pattern '{}' has {} bytes, expected at most {}",
                                shown(pattern), pattern.size(), kLongestPattern));
  }
  const std::string written = in_words_of_pcre(pattern);
  code_->compiled = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(written.data()), written.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT,
      &error, &offset, nullptr);
  if (code_->compiled == nullptr) {
    throw DataError(fmt::format("pre-tokenizer pattern '{}': {} at character {}", shown(pattern),
                                message_of(error), offset));
  }
  // Without JIT (hardened kernels forbid it) matching is interpreted: slower, same result.
  pcre2_jit_compile(code_->compiled, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
}

Regex::~Regex() = default;

// One call of PCRE2: a window of the text, whose end it must not take for the end of the text.
struct Regex::Search {
  enum class Places {
    kAll,
    kFirst
  };  // where a match may begin: anywhere in the window, or at `at` only
  size_t at = 0;
  size_t window = kFreeBytes;
  uint32_t steps = kFreeSteps;
  Places places = Places::kAll;
  TextEnd text_end = TextEnd::kEnd;

  bool sees_end(std::string_view text) const {
    return end(text) == text.size() && text_end == TextEnd::kEnd;
  }
  // The window ends between two characters.
  size_t end(std::string_view text) const {
    size_t out = window < text.size() - at ? at + window : text.size();
    while (out < text.size() && is_continuation(text[out])) --out;
    return out;
  }
};

int Regex::match(std::string_view text, const Search& search, PatternWork& work) const {
  if (work.scratch_ == nullptr) work.scratch_ = std::make_unique<PatternWork::Scratch>();
  PatternWork::Scratch& scratch = *work.scratch_;
  pcre2_set_match_limit(scratch.context, search.steps);
  pcre2_set_offset_limit(scratch.context,
                         search.places == Search::Places::kFirst ? search.at : PCRE2_UNSET);
  const size_t end = search.end(text);
  const uint32_t options =
      PCRE2_NO_UTF_CHECK | (search.sees_end(text) ? 0 : uint32_t{PCRE2_PARTIAL_HARD});
  return pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), end, search.at,
                     options, scratch.match, scratch.context);
}

void Regex::charge(int64_t amount, size_t at, PatternWork& work) const {
  work.left_ -= amount;
  if (work.left_ > 0) return;
  throw DataError(fmt::format(
      "tokenizer: the pattern '{}' takes too much work at byte {} of the text: it backtracks "
      "or looks ahead again and again; simplify it",
      shown(pattern_), at));
}

bool Regex::find(std::string_view text, const Search& from, PatternWork& work, size_t& begin,
                 size_t& end) const {
  using Places = Search::Places;
  Search search = from;
  size_t careful_until = from.at;  // there one place is tried at a time: a hard one is among them
  const auto move_to = [&](size_t place) {
    search = {.at = place,
              .places = place < careful_until ? Places::kFirst : Places::kAll,
              .text_end = from.text_end};
  };
  while (search.at < text.size()) {
    const int result = match(text, search, work);
    const size_t* range = pcre2_get_ovector_pointer(work.scratch_->match);
    const size_t window_end = search.end(text);
    const bool whole = search.sees_end(text);
    if (result >= 0 && (whole || range[0] < window_end)) {
      begin = range[0];
      end = range[1];
      return true;
    }
    if (result >= 0 || result == PCRE2_ERROR_NOMATCH) {
      if (search.places == Places::kFirst) {
        move_to(next_character(text, search.at));
      } else {
        if (whole) return false;
        move_to(window_end);
      }
    } else if (result == PCRE2_ERROR_PARTIAL) {
      if (range[0] > search.at && search.places == Places::kAll) {
        move_to(range[0]);
      } else if (window_end == text.size()) {
        return false;  // what follows decides
      } else {
        charge(static_cast<int64_t>(search.window), search.at, work);
        search.window *= 2;
      }
    } else if (result == PCRE2_ERROR_MATCHLIMIT && search.places == Places::kAll) {
      careful_until = window_end;
      search.places = Places::kFirst;
    } else if (result == PCRE2_ERROR_MATCHLIMIT) {
      charge(search.steps, search.at, work);
      const int64_t wanted = std::min(kStepsGrowth * search.steps, work.left_);
      search.steps = static_cast<uint32_t>(std::min(wanted, kMostSteps));
    } else {
      throw DataError(fmt::format("tokenizer: the pattern '{}' at byte {} of the text: {}",
                                  shown(pattern_), search.at, message_of(result)));
    }
  }
  return false;
}

void Regex::for_each_match(std::string_view text, TextEnd text_end, PatternWork& work,
                           const OnMatch& on_match) const {
  if (const size_t invalid = first_invalid_utf8(text); invalid != std::string_view::npos) {
    throw DataError(fmt::format("tokenizer: invalid UTF-8 at byte {} of the text", invalid));
  }
  size_t begin = 0, end = 0, at = 0;
  size_t last_end = std::string_view::npos;
  while (at < text.size() && find(text, {.at = at, .text_end = text_end}, work, begin, end)) {
    if (end <= begin && begin == last_end) {
      at = next_character(text, std::max(begin, at));
      last_end = std::string_view::npos;
      continue;
    }
    if (!on_match(begin, std::max(begin, end))) return;
    at = last_end = std::max(begin, end);
  }
}

bool Regex::matches_nothing() const {
  uint32_t can = 0;
  pcre2_pattern_info(code_->compiled, PCRE2_INFO_MATCHEMPTY, &can);
  return can != 0;
}

bool Regex::begins_anywhere() const {
  uint32_t characters = 0;
  pcre2_pattern_info(code_->compiled, PCRE2_INFO_MAXLOOKBEHIND, &characters);
  if (characters > 0 || pattern_.find("\\G") != std::string::npos || matches_nothing()) {
    return false;
  }
  for (size_t at = pattern_.find('^'); at != std::string::npos; at = pattern_.find('^', at + 1)) {
    if (at == 0 || (pattern_[at - 1] != '[' && pattern_[at - 1] != '\\')) return false;
  }
  return true;
}

// One space, or any white space, as often as a quantifier says.
bool Regex::is_of_spaces() const {
  std::string_view rest = pattern_;
  for (const std::string_view space : {" ", "\\s"}) {
    if (!rest.starts_with(space)) continue;
    rest.remove_prefix(space.size());
    const bool counted = rest.size() > 2 && rest.front() == '{' && rest.back() == '}' &&
                         rest.find_first_not_of("0123456789,", 1) == rest.size() - 1;
    return rest.empty() || rest == "+" || counted;
  }
  return false;
}

void Literal::for_each_match(std::string_view text, TextEnd text_end, PatternWork&,
                             const OnMatch& on_match) const {
  for (size_t at = text.find(text_); at != std::string_view::npos;) {
    const size_t end = at + text_.size();
    if (text_end == TextEnd::kGoesOn && end == text.size()) return;
    if (!on_match(at, end)) return;
    at = text.find(text_, end);
  }
}

void LiteralRuns::for_each_match(std::string_view text, TextEnd text_end, PatternWork&,
                                 const OnMatch& on_match) const {
  for (size_t at = text.find(text_); at != std::string_view::npos; at = text.find(text_, at)) {
    const size_t begin = at;
    while (text.substr(at).starts_with(text_)) at += text_.size();
    // Another one may follow, or the rest of one.
    const bool is_open = text_end == TextEnd::kGoesOn && text.size() - at < text_.size();
    if (is_open || !on_match(begin, at)) return;
  }
}

size_t CharacterKinds::kind_of(char32_t c) const {
  size_t kind = 0;
  while (kind < kinds_.size() && !kinds_[kind](c)) ++kind;
  return kind;
}

void CharacterKinds::for_each_match(std::string_view text, TextEnd text_end, PatternWork&,
                                    const OnMatch& on_match) const {
  for (size_t at = 0; at < text.size();) {
    const Utf8Character first = first_character(text.substr(at));
    const size_t begin = at, kind = kind_of(first.code);
    at += first.length;
    if (kind == kinds_.size()) continue;
    while (take_ == Take::kRuns && at < text.size()) {
      const Utf8Character next = first_character(text.substr(at));
      if (kind_of(next.code) != kind) break;
      at += next.length;
    }
    if (text_end == TextEnd::kGoesOn && at == text.size()) return;
    if (!on_match(begin, at)) return;
  }
}

}  // namespace ds
