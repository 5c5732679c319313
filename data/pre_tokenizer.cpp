#include "data/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "core/error.h"

namespace ds {
namespace {

// Backtracking steps per match: a word of the longest sane text needs far fewer, a hostile pattern is
// stopped within about a second.
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr size_t kJitStackBytes = size_t{16} << 20;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(error, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeStack {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

size_t next_character(std::string_view text, size_t at) {
  do {
    ++at;
  } while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U);
  return at;
}

}  // namespace

struct Regex::Code {
  pcre2_code* compiled = nullptr;
  ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(std::string_view pattern) : code_(std::make_unique<Code>()) {
  int error = 0;
  size_t offset = 0;
  code_->compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                                  nullptr);
  if (code_->compiled == nullptr) {
    throw DataError(fmt::format("pre-tokenizer pattern '{}': {} at character {}", pattern,
                                message_of(error), offset));
  }
  // Without JIT (hardened kernels forbid it) matching is interpreted: slower, same result.
  pcre2_jit_compile(code_->compiled, PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::for_each_match(
    std::string_view text, const std::function<void(size_t begin, size_t end)>& on_match) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(code_->compiled, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(
      pcre2_match_context_create(nullptr));
  const std::unique_ptr<pcre2_jit_stack, FreeStack> stack(
      pcre2_jit_stack_create(size_t{64} << 10, kJitStackBytes, nullptr));
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  uint32_t options = 0;  // the first call checks the whole text for valid UTF-8, later ones need not
  size_t at = 0;
  while (at < text.size()) {
    const int result = pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                   text.size(), at, options, match.get(), context.get());
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0) {
      const bool invalid = result <= PCRE2_ERROR_UTF8_ERR1 && result >= PCRE2_ERROR_UTF8_ERR21;
      const size_t where = invalid ? pcre2_get_startchar(match.get()) : at;
      throw DataError(fmt::format("tokenizer: {} at byte {} of the text", message_of(result), where));
    }
    options = PCRE2_NO_UTF_CHECK;
    const size_t* range = pcre2_get_ovector_pointer(match.get());
    if (range[1] <= range[0]) {
      at = next_character(text, std::max(range[0], at));
      continue;
    }
    on_match(range[0], range[1]);
    at = range[1];
  }
}

namespace {

void split_piece(const PreTokenizerStep& step, std::string_view piece,
                 std::vector<std::string_view>& out) {
  using Behavior = PreTokenizerStep::Behavior;
  size_t rest = 0;
  const auto keep_between = [&](size_t end) {
    if (end > rest && step.behavior != Behavior::kOnly) out.push_back(piece.substr(rest, end - rest));
  };
  step.regex->for_each_match(piece, [&](size_t begin, size_t end) {
    keep_between(begin);
    if (step.behavior != Behavior::kRemoved) out.push_back(piece.substr(begin, end - begin));
    rest = end;
  });
  keep_between(piece.size());
}

}  // namespace

Pieces PreTokenizer::split(std::string_view text) const {
  Pieces pieces;
  if (!text.empty()) pieces.views.push_back(text);
  for (const PreTokenizerStep& step : steps_) {
    std::vector<std::string_view> next;
    for (std::string_view piece : pieces.views) {
      if (step.prefix_space == PreTokenizerStep::PrefixSpace::kAdd && piece[0] != ' ') {
        piece = pieces.owned.emplace_back(" " + std::string(piece));
      }
      if (step.regex == nullptr) {
        next.push_back(piece);
      } else {
        split_piece(step, piece, next);
      }
    }
    pieces.views = std::move(next);
  }
  return pieces;
}

}  // namespace ds
