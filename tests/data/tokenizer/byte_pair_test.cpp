// Byte-pair encoding and added tokens against the plainest way to do the same: look at all pairs,
// join the best, begin again; and try every added token at every place.
#include "data/tokenizer/models/byte_pair.h"

#include <algorithm>
#include <random>

#include "core/status/error.h"
#include "data/tokenizer/split/added_tokens.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

// A vocabulary of the letters a to d and of random merges of what there is.
struct RandomMerges {
  std::vector<std::string> tokens;                          // by id
  std::vector<std::pair<std::string, std::string>> merges;  // by rank

  explicit RandomMerges(std::mt19937& random) {
    for (char c = 'a'; c <= 'd'; ++c) tokens.emplace_back(1, c);
    for (size_t i = 2 + random() % 14; i > 0; --i) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      if (std::ranges::find(merges, std::pair(left, right)) != merges.end()) continue;
      merges.emplace_back(left, right);
      if (std::ranges::find(tokens, left + right) == tokens.end()) tokens.push_back(left + right);
    }
  }

  BytePairEncoder encoder(BytePairForm::WholePieces whole) const {
    Vocabulary ids;
    for (size_t id = 0; id < tokens.size(); ++id) ids[tokens[id]] = static_cast<int>(id);
    BytePairEncoder out({.whole = whole}, ids);
    for (const auto& [left, right] : merges) out.add_merge(left, right);
    return out;
  }

  std::vector<int32_t> encode_plainly(const std::string& piece) const {
    std::vector<std::string> parts;
    for (const char c : piece) parts.emplace_back(1, c);
    while (true) {
      size_t best = merges.size(), where = 0;
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto found = std::ranges::find(merges, std::pair(parts[i], parts[i + 1]));
        const auto rank = static_cast<size_t>(found - merges.begin());
        if (rank < best) {
          best = rank;
          where = i;
        }
      }
      if (best == merges.size()) break;
      parts[where] += parts[where + 1];
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(where) + 1);
    }
    std::vector<int32_t> ids;
    for (const std::string& part : parts) {
      ids.push_back(static_cast<int32_t>(std::ranges::find(tokens, part) - tokens.begin()));
    }
    return ids;
  }
};

std::string random_piece(std::mt19937& random, size_t longest) {
  std::string piece;
  for (size_t i = random() % (longest + 1); i > 0; --i) {
    piece += static_cast<char>('a' + random() % 4);
  }
  return piece;
}

std::vector<int32_t> encoded(const BytePairEncoder& encoder, const std::string& piece) {
  std::vector<int32_t> ids;
  encoder.encode(piece, ids);
  return ids;
}

}  // namespace

TEST_CASE("pieces are encoded as by joining the best pair again and again", "[data]") {
  std::mt19937 random(21);
  for (int trial = 0; trial < 300; ++trial) {
    const RandomMerges vocabulary(random);
    const BytePairEncoder encoder = vocabulary.encoder(BytePairForm::WholePieces::kMerge);
    for (int i = 0; i < 20; ++i) {
      const std::string piece = random_piece(random, 24);
      CAPTURE(trial, piece, vocabulary.merges);
      REQUIRE(encoded(encoder, piece) == vocabulary.encode_plainly(piece));
    }
  }
}

TEST_CASE("a piece that is a token is that token where pieces are looked up first", "[data]") {
  std::mt19937 random(22);
  int differ = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const RandomMerges vocabulary(random);
    const BytePairEncoder encoder = vocabulary.encoder(BytePairForm::WholePieces::kLookUpFirst);
    for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      const std::string& token = vocabulary.tokens[id];
      REQUIRE(encoded(encoder, token) == std::vector<int32_t>{static_cast<int32_t>(id)});
      differ += vocabulary.encode_plainly(token).size() > 1 ? 1 : 0;
      const std::string longer = fmt::format("{0}a{0}b", token);
      if (std::ranges::find(vocabulary.tokens, longer) != vocabulary.tokens.end()) continue;
      REQUIRE(encoded(encoder, longer) == vocabulary.encode_plainly(longer));
    }
  }
  CHECK(differ > 0);  // the lookup decided something
}

TEST_CASE("a token that no merge makes is not made", "[data]") {
  const BytePairEncoder encoder({}, {{"a", 0}, {"b", 1}, {"ab", 2}});
  CHECK(encoded(encoder, "ab") == std::vector<int32_t>{0, 1});
}

TEST_CASE("ids are appended to what is there, and nothing to nothing", "[data]") {
  const BytePairEncoder encoder({}, {{"a", 7}});
  std::vector<int32_t> ids = {3};
  encoder.encode("", ids);
  CHECK(ids == std::vector<int32_t>{3});
  encoder.encode("aa", ids);
  CHECK(ids == std::vector<int32_t>{3, 7, 7});
}

TEST_CASE("bytes above 0x7f are bytes like any other", "[data]") {
  BytePairEncoder encoder({},
                          {{"\xFF", 1}, {std::string(1, '\0'), 2}, {std::string("\xFF\0", 2), 3}});
  encoder.add_merge("\xFF", std::string(1, '\0'));
  CHECK(encoded(encoder, std::string("\xFF\0\xFF", 3)) == std::vector<int32_t>{3, 1});
  CHECK_THROWS_WITH(encoded(encoder, "\xFE"),
                    Catch::Contains("byte 0xfe is not in the vocabulary"));
}

TEST_CASE("a merge needs both of its parts and what they make", "[data]") {
  BytePairEncoder encoder({}, {{"a", 0}, {"b", 1}, {"xb", 2}, {"ay", 3}});
  CHECK_THROWS_WITH(encoder.add_merge("a", "b"), Catch::Contains("a merge needs 'ab'"));
  CHECK_THROWS_WITH(encoder.add_merge("x", "b"), Catch::Contains("a merge needs 'x'"));
  CHECK_THROWS_WITH(encoder.add_merge("a", "y"), Catch::Contains("a merge needs 'y'"));
  CHECK_THROWS_AS(encoder.add_merge("a", "b"), DataError);
  CHECK(encoded(encoder, "ab") == std::vector<int32_t>{0, 1});
}

namespace {

// The sections of a text by trying every token at every place.
std::string split_plainly(const std::vector<AddedToken>& tokens, const std::string& text) {
  const auto is_space = [&](size_t at) { return text[at] == ' ' || text[at] == '\n'; };
  std::string out;
  size_t rest = 0;
  const auto add_text = [&](size_t end) {
    if (end > rest) out += "[" + text.substr(rest, end - rest) + "]";
  };
  for (size_t at = 0; at < text.size();) {
    const AddedToken* best = nullptr;
    for (const AddedToken& token : tokens) {
      if (text.compare(at, token.content.size(), token.content) != 0) continue;
      if (best == nullptr || token.content.size() > best->content.size()) best = &token;
    }
    if (best == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + best->content.size();
    at = end;
    if (best->left == AddedToken::Strip::kStrip) {
      while (begin > 0 && is_space(begin - 1)) --begin;
      begin = std::max(begin, rest);
    }
    while (best->right == AddedToken::Strip::kStrip && end < text.size() && is_space(end)) ++end;
    if (begin >= end) continue;
    add_text(begin);
    out += std::to_string(best->id);
    rest = end;
  }
  add_text(text.size());
  return out;
}

std::string split(const AddedTokens& tokens, const std::string& text) {
  std::string out;
  const auto on_text = [&](std::string_view section, const TextPart&) {
    out += "[" + std::string(section) + "]";
    return section.size();
  };
  CHECK(tokens.split(text, {}, on_text, [&](int32_t id) { out += std::to_string(id); }) ==
        text.size());
  return out;
}

// In parts of `step` bytes, of which those that are not certain come again with the next. A section
// may be cut anywhere, and so its letters are told one by one.
std::string split_in_parts(const AddedTokens& tokens, const std::string& text, size_t step) {
  std::string out;
  const auto on_text = [&](std::string_view section, const TextPart&) {
    for (const char letter : section) out += fmt::format("[{}]", letter);
    return section.size();
  };
  const auto on_token = [&](int32_t id) { out += std::to_string(id); };
  for (size_t from = 0, size = step; from < text.size();) {
    const bool goes_on = from + size < text.size();
    const size_t taken = tokens.split(std::string_view(text).substr(from, size),
                                      {.goes_on = goes_on}, on_text, on_token);
    from += taken;
    size = taken == 0 ? size + step : step;
  }
  return out;
}

}  // namespace

TEST_CASE("added tokens are found as by trying each of them everywhere", "[data]") {
  std::mt19937 random(23);
  const std::string letters = "<>ab \n";
  const auto text_of = [&](size_t longest) {
    std::string text;
    for (size_t i = 1 + random() % longest; i > 0; --i) text += letters[random() % letters.size()];
    return text;
  };
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<AddedToken> tokens;
    for (int32_t id = 0; id < static_cast<int32_t>(random() % 8); ++id) {
      const auto strip = [&] {
        return random() % 4 == 0 ? AddedToken::Strip::kStrip : AddedToken::Strip::kKeep;
      };
      const AddedToken::Strip left = strip(), right = strip();
      tokens.push_back({text_of(4), id, left, right});
    }
    const AddedTokens added(tokens);
    for (int i = 0; i < 5; ++i) {
      const std::string text = text_of(40);
      CAPTURE(trial, text);
      REQUIRE(split(added, text) == split_plainly(tokens, text));
      REQUIRE(split_in_parts(added, text, 1 + random() % 7) ==
              split_in_parts(added, text, text.size()));
    }
  }
}

TEST_CASE("added tokens without content, or too long, are a mistake of the caller", "[data]") {
  const auto keep = AddedToken::Strip::kKeep;
  CHECK_THROWS_AS(AddedTokens({{"", 1, keep, keep}}), InternalError);
  CHECK_THROWS_AS(AddedTokens({{std::string(1025, 'x'), 1, keep, keep}}), InternalError);
  CHECK(split(AddedTokens({{std::string(1024, 'x'), 1, keep, keep}}), std::string(1024, 'x')) ==
        "1");
}
