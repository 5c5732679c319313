// Cutting text into pieces: patterns against another implementation of regular expressions, over
// texts far longer than one window of the search; and each kind of step.
#include "data/tokenizer/split/pre_tokenizer.h"

#include <random>
#include <regex>

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  PatternWork work(text.size());
  std::vector<std::string> out;
  Regex(pattern).for_each_match(text, Regex::TextEnd::kEnd, work, [&](size_t begin, size_t end) {
    if (end > begin) out.push_back(text.substr(begin, end - begin));
    return true;
  });
  return out;
}

std::vector<std::string> matches_of_standard(const std::string& pattern, const std::string& text) {
  std::vector<std::string> out;
  const std::regex regex(pattern, std::regex::ECMAScript | std::regex::multiline);
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) {
    if (at->length() > 0) out.push_back(at->str());
  }
  return out;
}

PreTokenizerStep step_of(const std::string& pattern, PreTokenizerStep::Behavior behavior,
                         std::shared_ptr<const PieceRewrite> rewrite = nullptr) {
  return {std::move(rewrite), pattern.empty() ? nullptr : std::make_shared<Regex>(pattern),
          behavior};
}

// The pieces, each in brackets.
std::string pieces_of(std::vector<PreTokenizerStep> steps, const std::string& text) {
  const PreTokenizer pre_tokenizer(std::move(steps));
  PatternWork work(text.size());
  std::string out;
  for (const std::string_view piece : pre_tokenizer.split(text, {}, true, work).views) {
    out += "[" + std::string(piece) + "]";
  }
  return out;
}

using Behavior = PreTokenizerStep::Behavior;

}  // namespace

TEST_CASE("patterns match what the standard library's regular expressions match", "[data]") {
  const std::vector<std::string> patterns = {
      "a+b?", "[ab]{2,3}|c+", " ?[a-c]+| +(?! )| +", "\\s+(?!\\S)|\\s+", "(?:ab|a)(?:c|bcd)?",
      "a*?b", "x*",           "(a|b|c)(?=\\1)",      "[^ab]+$",          "\\bab?\\b"};
  std::mt19937 random(31);
  size_t found = 0;
  for (const std::string& pattern : patterns) {
    for (int trial = 0; trial < 30; ++trial) {
      // Runs of one letter are often longer than the first window of a search.
      std::string text;
      while (text.size() < 3000) {
        const char letter = "abc d\n"[random() % 6];
        text.append(random() % 20 == 0 ? random() % 900 : 1 + random() % 3, letter);
      }
      CAPTURE(pattern, trial);
      const std::vector<std::string> expected = matches_of_standard(pattern, text);
      REQUIRE(matches(pattern, text) == expected);
      found += expected.size();
    }
  }
  CHECK(found > 10'000);
}

TEST_CASE("classes of characters are Unicode's", "[data]") {
  CHECK(matches("\\p{L}+", "na\xC3\xAFve \xE6\xBC\xA2\xE5\xAD\x97 x1") ==
        std::vector<std::string>{"na\xC3\xAFve", "\xE6\xBC\xA2\xE5\xAD\x97", "x"});
  CHECK(matches("\\p{N}", "1\xC2\xBD\xE2\x85\xA7") ==
        std::vector<std::string>{"1", "\xC2\xBD", "\xE2\x85\xA7"});
  CHECK(matches("\\s+",
                "a\xC2\xA0\xE3\x80\x80"
                "b") == std::vector<std::string>{"\xC2\xA0\xE3\x80\x80"});
  CHECK(matches("(?i:\xC3\x89)", "\xC3\xA9") == std::vector<std::string>{"\xC3\xA9"});
}

TEST_CASE("a pattern with a mistake is refused with where it stands", "[data]") {
  CHECK_THROWS_WITH(Regex("ab(c"), Catch::Contains("pre-tokenizer pattern 'ab(c': ") &&
                                       Catch::EndsWith("at character 4"));
  CHECK_THROWS_WITH(Regex("a{2,1}"), Catch::Contains("at character"));
  CHECK_THROWS_WITH(Regex("[z-a]"), Catch::Contains("at character"));
  CHECK_THROWS_AS(Regex("*"), DataError);
  CHECK_THROWS_AS(Regex("\\C"), DataError);  // would cut characters in two
  CHECK_THROWS_AS(Regex("\xFF"), DataError);
}

TEST_CASE("invalid text is refused before anything is matched", "[data]") {
  PatternWork work(10);
  int found = 0;
  CHECK_THROWS_WITH(Regex("a").for_each_match("aaa\xC3", Regex::TextEnd::kEnd, work,
                                              [&](size_t, size_t) {
                                                ++found;
                                                return true;
                                              }),
                    Catch::Contains("invalid UTF-8 at byte 3 of the text"));
  CHECK(found == 0);
}

TEST_CASE("matches stand alone, or cut, or are all there is", "[data]") {
  CHECK(pieces_of({step_of("[0-9]+", Behavior::kIsolated)}, "a12b3") == "[a][12][b][3]");
  CHECK(pieces_of({step_of("[0-9]+", Behavior::kRemoved)}, "a12b3") == "[a][b]");
  CHECK(pieces_of({step_of("[0-9]+", Behavior::kOnly)}, "a12b3") == "[12][3]");
  CHECK(pieces_of({step_of("x", Behavior::kIsolated)}, "abc") == "[abc]");
  CHECK(pieces_of({step_of("x", Behavior::kRemoved)}, "xxx").empty());
  CHECK(pieces_of({step_of("x", Behavior::kOnly)}, "abc").empty());
}

TEST_CASE("matches join what lies beside them", "[data]") {
  const auto cut = [](Behavior behavior, const std::string& text, bool invert = false) {
    PreTokenizerStep step = step_of("[.]", behavior);
    step.invert = invert;
    return pieces_of({step}, text);
  };
  CHECK(cut(Behavior::kMergedWithPrevious, "a..b.") == "[a.][.][b.]");
  CHECK(cut(Behavior::kMergedWithPrevious, ".a") == "[.][a]");
  CHECK(cut(Behavior::kMergedWithNext, "a..b.") == "[a][.][.b][.]");
  CHECK(cut(Behavior::kMergedWithNext, ".a") == "[.a]");
  CHECK(cut(Behavior::kContiguous, "a..b.") == "[a][..][b][.]");
  CHECK(cut(Behavior::kContiguous, "..").empty() == false);
  CHECK(cut(Behavior::kMergedWithNext, "a..b.", true) == "[a.][.][b.]");
  CHECK(cut(Behavior::kMergedWithPrevious, "a..b.", true) == "[a][.][.b][.]");
  CHECK(cut(Behavior::kMergedWithNext, "").empty());
}

TEST_CASE("an empty match cuts where it stands", "[data]") {
  CHECK(pieces_of({step_of("(?=([0-9]{3})+(?![0-9]))", Behavior::kIsolated)}, "1234567 89") ==
        "[1][234][567 89]");
  CHECK(pieces_of({step_of("x*", Behavior::kIsolated)}, "axb") == "[a][x][b]");
  CHECK(Regex("x*").matches_nothing());
  CHECK_FALSE(Regex("x+").matches_nothing());
}

TEST_CASE("classes are what the patterns of tokenizers are written for", "[data]") {
  CHECK(matches("\\s", "a\u180e\u00a0") == std::vector<std::string>{"\u00a0"});
  CHECK(matches("[^\\S]", "a\u180e\u00a0") == std::vector<std::string>{"\u00a0"});
  CHECK(matches("\\w+", "e\u0301_2\u203fx-\u2074") == std::vector<std::string>{"e\u0301_2\u203fx"});
  // Six numbers of Latin-1, and letters in circles and squares, are parts of words in Oniguruma.
  CHECK(matches("\\w+", "\u00b1\u00b2\u00b3\u00b4\u00b9-\u00bc\u00be\u00bf") ==
        std::vector<std::string>{"\u00b2\u00b3", "\u00b9", "\u00bc\u00be"});
  CHECK(matches("[\\w]+|!", "!\u00b2\u00bd") == std::vector<std::string>{"!"});  // not in brackets
  CHECK(matches("[^\\w\\s]+", ".\u00bd{a") == std::vector<std::string>{".\u00bd{"});
  CHECK(matches("[\\w]+", "\u24b5\u24b6\u24e9\u24ea\U0001f189\U0001f18a") ==
        std::vector<std::string>{"\u24b6\u24e9", "\U0001f189"});
  CHECK(matches("\\W+", "a\u24b6-\u24ea") == std::vector<std::string>{"-\u24ea"});
  CHECK(matches("\\W", "e\u0301-") == std::vector<std::string>{"-"});
  CHECK(matches("[\\w-]+", "a-b c") == std::vector<std::string>{"a-b", "c"});
  CHECK(matches("\\h+", "3fg \t") == std::vector<std::string>{"3f"});  // digits of base sixteen
  CHECK(matches("\\\\s", "\\s ") == std::vector<std::string>{"\\s"});
  CHECK(matches("\\p{Han}+", "\u6f22\u3002\u5b57") ==
        std::vector<std::string>{"\u6f22", "\u5b57"});  // a full stop is of no script
  CHECK(matches("[\\p{^Han}]", "\u6f22a") == std::vector<std::string>{"a"});
  CHECK(matches("^a", "a\na") == std::vector<std::string>{"a", "a"});  // lines begin, too
  CHECK_THROWS_WITH(Regex("[\\W]"), Catch::Contains("\\W in brackets is not supported"));
  CHECK_THROWS_WITH(Regex("[a-z&&[^b]]"), Catch::Contains("not supported"));
  CHECK_THROWS_WITH(Regex("[[a]b]"), Catch::Contains("a set within a set"));
  CHECK_THROWS_WITH(Regex("a{1,3}+"), Catch::Contains("+ behind a count"));
  CHECK_THROWS_WITH(Regex("a{,3}"), Catch::Contains("without its least"));
  CHECK_THROWS_AS(Regex("[\\W]"), Unsupported);
  CHECK_NOTHROW(Regex("[\\[{}+]"));
}

TEST_CASE("kinds of characters are matched one by one, or in runs of a kind", "[data]") {
  const auto pieces = [](CharacterKinds::Take take) {
    PreTokenizerStep step;
    step.pattern = std::make_shared<CharacterKinds>(
        std::vector{&unicode::is_number, &unicode::is_punctuation}, take);
    return pieces_of({step}, "ab12..3c");
  };
  CHECK(pieces(CharacterKinds::Take::kEach) == "[ab][1][2][.][.][3][c]");
  CHECK(pieces(CharacterKinds::Take::kRuns) == "[ab][12][..][3][c]");
}

TEST_CASE("runs of a text are one match each, however long", "[data]") {
  const LiteralRuns runs("\u2581");
  const auto spans = [&](std::string_view text, Pattern::TextEnd end) {
    std::vector<std::pair<size_t, size_t>> out;
    PatternWork work(text.size());
    runs.for_each_match(text, end, work, [&](size_t begin, size_t stop) {
      out.emplace_back(begin, stop);
      return true;
    });
    return out;
  };
  using Spans = std::vector<std::pair<size_t, size_t>>;
  using enum Pattern::TextEnd;
  CHECK(spans("a\u2581\u2581bcd\u2581", kEnd) == Spans{{1, 7}, {10, 13}});
  CHECK(spans("a\u2581\u2581bcd\u2581", kGoesOn) == Spans{{1, 7}});  // more of them may follow
  CHECK(spans("abc", kEnd).empty());
  std::string many;
  for (int i = 0; i < 1'000'000; ++i) many += "\u2581";
  CHECK(spans(many + "abc", kGoesOn) == Spans{{0, 3'000'000}});
}

TEST_CASE("spaces become a sign, which stands before pieces by a scheme", "[data]") {
  const auto pieces = [](PrependScheme scheme, const std::string& text) {
    PreTokenizerStep step;
    step.rewrite = space_sign("_", scheme);
    step.pattern = std::make_shared<Literal>("_");
    step.behavior = Behavior::kMergedWithNext;
    return pieces_of({step_of("[,]", Behavior::kRemoved), step}, text);
  };
  CHECK(pieces(PrependScheme::kAlways, "a b,c") == "[_a][_b][_c]");
  CHECK(pieces(PrependScheme::kFirst, "a b,c") == "[_a][_b][c]");
  CHECK(pieces(PrependScheme::kFirst, ",c") == "[c]");  // is not what the text begins with
  CHECK(pieces(PrependScheme::kNever, "a  b") == "[a][_][_b]");
  CHECK(pieces(PrependScheme::kAlways, " a") == "[_a]");
}

TEST_CASE("isolated pieces are the text, cut", "[data]") {
  std::mt19937 random(32);
  for (int trial = 0; trial < 100; ++trial) {
    std::string text;
    for (size_t i = random() % 60; i > 0; --i) text += "ab1 \n."[random() % 6];
    std::string joined;
    const PreTokenizer pre_tokenizer({step_of("[a-z]+| ?[0-9]", Behavior::kIsolated),
                                      step_of("a", Behavior::kIsolated),
                                      step_of("\\n", Behavior::kIsolated)});
    PatternWork work(text.size());
    for (const std::string_view piece : pre_tokenizer.split(text, {}, true, work).views) {
      CHECK_FALSE(piece.empty());
      joined += piece;
    }
    CHECK(joined == text);
  }
}

TEST_CASE("each step cuts every piece of the one before", "[data]") {
  CHECK(pieces_of({step_of(" ", Behavior::kRemoved), step_of("[0-9]", Behavior::kIsolated)},
                  "a1 22 b") == "[a][1][2][2][b]");
  CHECK(pieces_of({step_of("[0-9]", Behavior::kIsolated), step_of(" ", Behavior::kRemoved)},
                  "a1 22 b") == "[a][1][2][2][b]");
  // A pattern of a later step sees the borders of its piece, not the text around it.
  CHECK(pieces_of({step_of(",", Behavior::kIsolated), step_of("^a", Behavior::kRemoved)},
                  "ab,ab") == "[b][,][b]");
}

TEST_CASE("a space is put before each piece that has none", "[data]") {
  CHECK(pieces_of({step_of("", Behavior::kIsolated, prefix_space())}, "ab") == "[ ab]");
  CHECK(pieces_of({step_of("", Behavior::kIsolated, prefix_space())}, " ab") == "[ ab]");
  CHECK(pieces_of({step_of("", Behavior::kIsolated, prefix_space())}, "\nab") == "[ \nab]");
  CHECK(pieces_of({step_of(",", Behavior::kRemoved),
                   step_of(" ?[a-z]", Behavior::kIsolated, prefix_space())},
                  "ab,c") == "[ a][b][ c]");
  CHECK(pieces_of({step_of("", Behavior::kIsolated, prefix_space())}, "").empty());
}

TEST_CASE("without steps a text is one piece, and no text is none", "[data]") {
  CHECK(pieces_of({}, "a b") == "[a b]");
  CHECK(pieces_of({}, "").empty());
  CHECK(pieces_of({step_of("", Behavior::kIsolated)}, "a b") == "[a b]");
}

TEST_CASE("pieces that were made longer stay where they are while others follow", "[data]") {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::to_string(i) + ",";
  const PreTokenizer pre_tokenizer(
      {step_of(",", Behavior::kRemoved), step_of("", Behavior::kIsolated, prefix_space())});
  PatternWork work(text.size());
  const Pieces pieces = pre_tokenizer.split(text, {}, true, work);
  REQUIRE(pieces.views.size() == 2000);
  for (size_t i = 0; i < 2000; ++i) REQUIRE(pieces.views[i] == " " + std::to_string(i));
}
