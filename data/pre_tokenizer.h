// Cutting text into the pieces that BPE works on separately, by the regular expressions of a
// tokenizer.json. PCRE2, because the patterns in use need Unicode classes and look-ahead, with limits on
// its work so that no input can keep it busy for ever.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

// Thread-safe.
class Regex {
 public:
  explicit Regex(std::string_view pattern);  // DataError naming the position of a syntax error
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Calls `on_match` with begin and end of each non-empty match, left to right. DataError with the byte
  // offset for invalid UTF-8, or where a match takes too much work.
  void for_each_match(std::string_view text,
                      const std::function<void(size_t begin, size_t end)>& on_match) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

// Pieces of a text, in order: views of it, or of strings owned here.
struct Pieces {
  std::vector<std::string_view> views;
  std::deque<std::string> owned;
};

struct PreTokenizerStep {
  // Isolated: matches and what lies between them are pieces. Removed: only what lies between.
  // Only: only the matches.
  enum class Behavior { kIsolated, kRemoved, kOnly };
  enum class PrefixSpace { kNo, kAdd };         // before the split: a space before each piece without
  std::shared_ptr<const Regex> regex;           // null: no split
  Behavior behavior = Behavior::kIsolated;
  PrefixSpace prefix_space = PrefixSpace::kNo;
};

// Applies the steps in turn, each to every piece of the one before. Thread-safe.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}
  Pieces split(std::string_view text) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace ds
