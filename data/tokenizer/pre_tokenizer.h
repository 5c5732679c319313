// Cutting text into the pieces that BPE works on separately, by the regular expressions of a
// tokenizer.json. PCRE2, because the patterns in use need Unicode classes and look-ahead, with
// limits on its work so that no input can keep it busy for ever.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/text_part.h"

namespace ds {

// What all patterns together may do to one text: as much as any sane pattern takes, for every byte
// of it, and a fixed allowance besides for hard places. It counts what PCRE2 counts (steps of
// backtracking) and the bytes that an attempt looks ahead over, both deterministic, so that every
// rank refuses the same texts. Confined to one thread.
class PatternWork {
 public:
  explicit PatternWork(size_t text_bytes);
  ~PatternWork();
  PatternWork(const PatternWork&) = delete;  // owns what PCRE2 works in

 private:
  friend class Regex;
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
  int64_t left_;
};

// Thread-safe.
class Regex {
 public:
  explicit Regex(std::string_view pattern);  // DataError naming the position of a syntax error
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  enum class TextEnd { kEnd, kGoesOn };
  // Calls `on_match` with begin and end of each non-empty match, left to right, until it says
  // false. Where the text goes on, matches that what follows could change are none. DataError with
  // the byte offset for invalid UTF-8, or where the work is used up, naming the pattern.
  void for_each_match(std::string_view text, TextEnd text_end, PatternWork& work,
                      const std::function<bool(size_t begin, size_t end)>& on_match) const;
  // Whether what a text begins with is matched as it is further on.
  bool looks_back() const;

 private:
  struct Code;
  struct Search;
  // The first match that begins at `at` or after it; an empty one begins and ends at the same
  // place.
  bool find(std::string_view text, const Search& from, PatternWork& work, size_t& begin,
            size_t& end) const;
  int match(std::string_view text, const Search& search, PatternWork& work) const;
  void charge(int64_t amount, size_t at,
              PatternWork& work) const;  // DataError once nothing is left

  std::string pattern_;
  std::unique_ptr<Code> code_;
};

// Pieces of a text, in order: views of it, or of strings owned here.
struct Pieces {
  std::vector<std::string_view> views;
  std::deque<std::string> owned;
  size_t taken = 0;  // bytes of the text that they are
};

struct PreTokenizerStep {
  // Isolated: matches and what lies between them are pieces. Removed: only what lies between.
  // Only: only the matches.
  enum class Behavior { kIsolated, kRemoved, kOnly };
  enum class PrefixSpace { kNo, kAdd };  // before the split: a space before each piece without
  std::shared_ptr<const Regex> regex;    // null: no split
  Behavior behavior = Behavior::kIsolated;
  PrefixSpace prefix_space = PrefixSpace::kNo;
};

// Applies the steps in turn, each to every piece of the one before. Thread-safe.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}
  Pieces split(std::string_view text, const TextPart& part, PatternWork& work) const;
  // Whether the pieces of a text that is cut between two pieces are those of its parts.
  bool begins_anywhere() const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace ds
