// What a tokenizer looks for in a text: regular expressions, texts and kinds of characters.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/text/growth.h"
#include "data/tokenizer/text/unicode.h"

namespace ds {

// What all patterns together may do to one text, and all steps may write for it: as much as any
// sane pattern takes, for every byte of it, and a fixed allowance besides for hard places. It
// counts what PCRE2 counts (steps of backtracking) and the bytes that an attempt looks ahead over,
// both deterministic, so that every rank refuses the same texts. Confined to one thread.
class PatternWork {
 public:
  explicit PatternWork(size_t text_bytes);
  void begin_text(size_t text_bytes);  // another text, in the same room
  ~PatternWork();
  void write(size_t bytes) { room_.take(bytes); }  // DataError once it is too much
  PatternWork(const PatternWork&) = delete;        // owns what PCRE2 works in

 private:
  friend class Regex;
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;  // made when a pattern first wants it
  int64_t left_ = 0;
  WritingRoom room_{0};
};

// Thread-safe.
class Pattern {
 public:
  enum class TextEnd { kEnd, kGoesOn };
  using OnMatch = std::function<bool(size_t begin, size_t end)>;

  virtual ~Pattern() = default;
  // Calls `on_match` with begin and end of each match, left to right, until it says false. A match
  // may be empty, but not where the one before ended. Where the text goes on, matches that what
  // follows could change are none. DataError with the byte offset for invalid UTF-8, or where the
  // work is used up, naming the pattern.
  virtual void for_each_match(std::string_view text, TextEnd text_end, PatternWork& work,
                              const OnMatch& on_match) const = 0;
  // Whether what a text begins with is matched as it is further on, and nothing matches no text.
  virtual bool begins_anywhere() const { return true; }
  // The one text that it matches, where it is one.
  virtual std::optional<std::string_view> literal() const { return std::nullopt; }
  // Whether what it matches is known to be white space alone.
  virtual bool is_of_spaces() const { return false; }
};

// PCRE2, because the patterns in use need Unicode classes and look-ahead, with limits on its work
// so that no input can keep it busy for ever.
class Regex final : public Pattern {
 public:
  explicit Regex(std::string_view pattern);  // DataError naming the position of a syntax error
  ~Regex() override;

  void for_each_match(std::string_view text, TextEnd text_end, PatternWork& work,
                      const OnMatch& on_match) const override;
  bool begins_anywhere() const override;
  bool is_of_spaces() const override;
  bool matches_nothing() const;  // whether it can match an empty text

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

// A text, as it is.
class Literal final : public Pattern {
 public:
  explicit Literal(std::string text) : text_(std::move(text)) {}  // not empty
  void for_each_match(std::string_view text, TextEnd text_end, PatternWork& work,
                      const OnMatch& on_match) const override;
  std::optional<std::string_view> literal() const override { return text_; }

 private:
  std::string text_;
};

// Runs of a text that stands there again and again.
class LiteralRuns final : public Pattern {
 public:
  explicit LiteralRuns(std::string text) : text_(std::move(text)) {}  // not empty
  void for_each_match(std::string_view text, TextEnd text_end, PatternWork& work,
                      const OnMatch& on_match) const override;

 private:
  std::string text_;
};

// Each character of one of some kinds is a match, or each run of one kind where they are taken
// together. A character that is of several kinds is of the first.
class CharacterKinds final : public Pattern {
 public:
  enum class Take { kEach, kRuns };
  explicit CharacterKinds(std::vector<unicode::Property> kinds, Take take = Take::kEach)
      : kinds_(std::move(kinds)), take_(take) {}
  void for_each_match(std::string_view text, TextEnd text_end, PatternWork& work,
                      const OnMatch& on_match) const override;

 private:
  size_t kind_of(char32_t c) const;  // kinds_.size() for one of none

  std::vector<unicode::Property> kinds_;
  Take take_;
};

}  // namespace ds
