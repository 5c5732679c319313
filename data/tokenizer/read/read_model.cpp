#include <array>
#include <utility>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/tokenizer/models/byte_pair.h"
#include "data/tokenizer/read/parts.h"
#include "data/tokenizer/text/byte_letters.h"

namespace ds {
namespace {

// What most vocabularies of SentencePiece write in the place of a space.
constexpr const char* kSpaceSign = "\u2581";

// {"token": id, ...}
Vocabulary read_vocabulary(const JsonPart& model, TokenTexts& texts) {
  const JsonPart part = model.require("vocab");
  if (!part.value().IsObject()) model.refuse("model.vocab is no object");
  Vocabulary vocabulary;
  vocabulary.reserve(part.value().MemberCount());
  for (const auto& item : part.value().GetObject()) {
    const std::string token = model.characters_of(item.name);
    if (!item.value.IsInt64()) model.refuse("the id of token '" + token + "' is no integer");
    texts.add(model, item.value.GetInt64(), token);
    vocabulary[token] = static_cast<int32_t>(item.value.GetInt64());
  }
  return vocabulary;
}

struct Pair {
  std::string left, right;
};

// "a b", or ["a", "b"].
std::vector<Pair> read_merges(const JsonPart& model) {
  std::vector<Pair> out;
  for (const JsonPart& part : model.list("merges")) {
    const JsonPart::Json& merge = part.value();
    Pair pair;
    if (merge.IsString()) {
      const std::string both = model.characters_of(merge);
      const size_t space = both.find(' ');
      if (space != std::string::npos && both.find(' ', space + 1) == std::string::npos)
        pair = {both.substr(0, space), both.substr(space + 1)};
    } else if (merge.IsArray() && merge.Size() == 2 && merge[0].IsString() && merge[1].IsString()) {
      pair = {model.characters_of(merge[0]), model.characters_of(merge[1])};
    }
    if (pair.left.empty() || pair.right.empty())
      model.refuse(fmt::format("merge {} is not a pair of tokens", out.size()));
    out.push_back(std::move(pair));
  }
  return out;
}

// The vocabulary by what GPT-2's letters stand for; nothing where a byte or a part of a merge is
// not written in them.
std::optional<Vocabulary> in_bytes(const Vocabulary& vocabulary, std::vector<Pair>& merges) {
  Vocabulary out;
  size_t single = 0;
  for (const auto& [token, id] : vocabulary) {
    auto bytes = from_byte_letters(token);
    if (!bytes) continue;  // no piece is written like this
    if (bytes->size() == 1) ++single;
    out[std::move(*bytes)] = id;
  }
  if (single < 256) return std::nullopt;
  std::vector<Pair> pairs;
  for (const Pair& merge : merges) {
    auto left = from_byte_letters(merge.left), right = from_byte_letters(merge.right);
    if (!left || !right) return std::nullopt;
    pairs.push_back({std::move(*left), std::move(*right)});
  }
  merges = std::move(pairs);
  return out;
}

BytePairForm read_form(const JsonPart& model) {
  BytePairForm form{.units = BytePairForm::Units::kCharacters};
  form.prefix = model.text("continuing_subword_prefix", "");
  form.suffix = model.text("end_of_word_suffix", "");
  form.byte_fallback = model.flag("byte_fallback", false);
  form.fuse_unknown = model.flag("fuse_unk", false);
  if (model.member("unk_token")) form.unknown = model.text("unk_token");
  if (model.flag("ignore_merges", false)) form.whole = BytePairForm::WholePieces::kLookUpFirst;
  const auto dropout = model.member("dropout");
  if (dropout && !(dropout->value().IsNumber() && dropout->value().GetDouble() == 0.0))
    model.unsupported("model.dropout");
  return form;
}

std::unique_ptr<PieceEncoder> read_byte_pair(const JsonPart& model, ReadSteps& pre_tokenizer,
                                             TokenTexts& texts) {
  BytePairForm form = read_form(model);
  Vocabulary vocabulary = read_vocabulary(model, texts);
  std::vector<Pair> merges = read_merges(model);
  if (pre_tokenizer.ends_in_byte_letters && form.prefix.empty() && form.suffix.empty()) {
    if (auto bytes = in_bytes(vocabulary, merges)) {
      vocabulary = std::move(*bytes);
      form.units = BytePairForm::Units::kBytes;
      pre_tokenizer.ends_in_byte_letters = false;
    }
  }
  auto encoder = std::make_unique<BytePairEncoder>(std::move(form), std::move(vocabulary));
  for (const Pair& merge : merges) encoder->add_merge(merge.left, merge.right);
  // Whole texts come as one piece where spaces are letters: words that repeat are looked up then.
  if (!pre_tokenizer.ends_in_byte_letters && encoder->may_cut_before(kSpaceSign)) {
    pre_tokenizer.steps.push_back(
        {.pattern = std::make_shared<LiteralRuns>(std::string(kSpaceSign)),
         .behavior = PreTokenizerStep::Behavior::kMergedWithNext});
  }
  return encoder;
}

// What forms/ writes of a file that tiktoken reads: tokens in GPT-2's letters, whose ids are in the
// order of their ranks.
std::unique_ptr<PieceEncoder> read_ranked_bytes(const JsonPart& model, ReadSteps& pre_tokenizer,
                                                TokenTexts& texts) {
  Vocabulary vocabulary;
  for (const auto& [letters, id] : read_vocabulary(model, texts)) {
    auto bytes = from_byte_letters(letters);
    if (!bytes || bytes->empty())
      model.refuse("token '" + letters + "' is not written in the letters of bytes");
    vocabulary[std::move(*bytes)] = id;
  }
  if (!std::exchange(pre_tokenizer.ends_in_byte_letters, false))
    model.refuse("the pre-tokenizer of RankedBytes does not end in ByteLevel");
  return std::make_unique<BytePairEncoder>(
      BytePairForm{.whole = BytePairForm::WholePieces::kLookUpFirst,
                   .joins = BytePairForm::Joins::kByUnion},
      std::move(vocabulary));
}

std::unique_ptr<PieceEncoder> read_word_piece(const JsonPart& model, ReadSteps&,
                                              TokenTexts& texts) {
  const WordPieceForm form{.unknown = model.text("unk_token", "[UNK]"),
                           .prefix = model.text("continuing_subword_prefix", "##"),
                           .longest = model.count("max_input_chars_per_word", 100)};
  return word_piece(read_vocabulary(model, texts), form);
}

std::unique_ptr<PieceEncoder> read_word_level(const JsonPart& model, ReadSteps&,
                                              TokenTexts& texts) {
  return word_level(read_vocabulary(model, texts), model.text("unk_token", "<unk>"));
}

// [["token", score], ...], by id.
std::unique_ptr<PieceEncoder> read_unigram(const JsonPart& model, ReadSteps&, TokenTexts& texts) {
  std::vector<ScoredToken> tokens;
  for (const JsonPart& part : model.list("vocab")) {
    const JsonPart::Json& item = part.value();
    if (!item.IsArray() || item.Size() != 2 || !item[0].IsString() || !item[1].IsNumber())
      model.refuse(fmt::format("token {} of model.vocab is no text with a score", tokens.size()));
    std::string token = model.characters_of(item[0]);
    texts.add(model, std::ssize(tokens), token);
    tokens.push_back({std::move(token), item[1].GetDouble()});
  }
  UnigramForm form{.unknown = std::nullopt, .byte_fallback = model.flag("byte_fallback", false)};
  if (model.member("unk_id")) {
    const size_t id = model.count("unk_id", 0);
    if (id >= tokens.size()) model.refuse("model.unk_id is no token");
    form.unknown = static_cast<int32_t>(id);
  }
  return unigram(tokens, form);
}

struct ModelKind {
  const char* type;
  std::unique_ptr<PieceEncoder> (*read)(const JsonPart&, ReadSteps&, TokenTexts&);
};
constexpr std::array kModelKinds{
    ModelKind{"BPE", &read_byte_pair},
    ModelKind{"WordPiece", &read_word_piece},
    ModelKind{"WordLevel", &read_word_level},
    ModelKind{"Unigram", &read_unigram},
    ModelKind{"SentencePiece", &read_sentence_piece},
    ModelKind{"RankedBytes", &read_ranked_bytes},
};

// Files of before 0.9 do not say what they hold.
std::string type_of(const JsonPart& model) {
  if (model.member("type")) return model.type();
  if (model.member("merges")) return "BPE";
  const auto vocabulary = model.member("vocab");
  if (vocabulary && vocabulary->value().IsArray()) return "Unigram";
  return model.member("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

}  // namespace

void TokenTexts::add(const JsonPart& part, int64_t id, const std::string& text) {
  if (id < 0 || id >= kLargestId) {
    part.refuse(fmt::format("token id {} is out of range, expected 0 to {}", id, kLargestId - 1));
  }
  const auto [entry, is_new] = texts_.emplace(static_cast<int32_t>(id), text);
  if (!is_new && entry->second != text)
    part.refuse(fmt::format("token id {} is given to two tokens", id));
  vocab_size_ = std::max(vocab_size_, id + 1);
}

const std::string* TokenTexts::find(int32_t id) const {
  const auto found = texts_.find(id);
  return found == texts_.end() ? nullptr : &found->second;
}

std::unique_ptr<PieceEncoder> read_model(const JsonPart& model, ReadSteps& pre_tokenizer,
                                         TokenTexts& texts) {
  const std::string type = type_of(model);
  for (const ModelKind& kind : kModelKinds) {
    if (type == kind.type) return kind.read(model, pre_tokenizer, texts);
  }
  model.unsupported("the model " + type);
}

ReadAdded read_added(const JsonPart& document, TokenTexts& texts) {
  ReadAdded out;
  if (!document.member("added_tokens")) return out;
  for (const JsonPart& part : document.list("added_tokens")) {
    const auto id = part.member("id");
    const std::string content = part.text("content", "");
    if (!id || !id->value().IsInt64() || content.empty())
      document.refuse("an added token lacks its id or content");
    if (content.size() > AddedTokens::kLongest) {
      document.refuse(fmt::format("an added token has {} bytes, expected at most {}",
                                  content.size(), AddedTokens::kLongest));
    }
    texts.add(document, id->value().GetInt64(), content);
    AddedToken token{.content = content, .id = static_cast<int32_t>(id->value().GetInt64())};
    if (part.flag("lstrip", false)) token.left = AddedToken::Strip::kStrip;
    if (part.flag("rstrip", false)) token.right = AddedToken::Strip::kStrip;
    if (part.flag("single_word", false)) token.where = AddedToken::Where::kWholeWord;
    const bool normalized = part.flag("normalized", !part.flag("special", false));
    (normalized ? out.normalized : out.verbatim).push_back(std::move(token));
  }
  return out;
}

}  // namespace ds
