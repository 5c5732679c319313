#include "data/tokenizer/tokenizer.h"

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include <algorithm>
#include <array>
#include <optional>

#include "data/text/stream_digest.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/byte_pair.h"
#include "data/tokenizer/pre_tokenizer.h"

namespace ds {
namespace {

constexpr int64_t kLargestFile = int64_t{1} << 28;
constexpr int64_t kLargestId = 1 << 24;
constexpr size_t kCachedPieces = 1 << 16;
// The pattern of ByteLevel where a tokenizer.json does not bring its own (GPT-2).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// GPT-2 writes each byte as a printable character: itself where it is one, else U+0100 and up.
std::array<char32_t, 256> byte_characters() {
  std::array<char32_t, 256> out{};
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
                           (byte >= 0xae && byte <= 0xff);
    out[byte] = printable ? byte : next++;
  }
  return out;
}

class ByteAlphabet {
 public:
  ByteAlphabet() {
    const auto characters = byte_characters();
    for (size_t byte = 0; byte < 256; ++byte) byte_of_[characters[byte]] = static_cast<int>(byte);
  }

  // The bytes that a written token stands for; nothing if it has characters that are no bytes.
  std::optional<std::string> bytes_of(std::string_view token) const {
    std::string out;
    for (size_t at = 0; at < token.size();) {
      const auto first = static_cast<unsigned char>(token[at]);
      char32_t character = first;
      size_t length = 1;
      if (first >= 0xc0 && first < 0xe0 && at + 1 < token.size()) {
        character = (first & 0x1fU) << 6 | (static_cast<unsigned char>(token[at + 1]) & 0x3fU);
        length = 2;
      } else if (first >= 0x80) {
        return std::nullopt;  // beyond U+07FF: not in the alphabet
      }
      const auto found = byte_of_.find(character);
      if (found == byte_of_.end()) return std::nullopt;
      out.push_back(static_cast<char>(found->second));
      at += length;
    }
    return out;
  }

 private:
  std::unordered_map<char32_t, int> byte_of_;
};

// No table with a place for every id: one high id, as a file may claim, must cost no more than any
// other.
using BytesOfId = std::unordered_map<int32_t, std::string>;

class BytePairTokenizer final : public Tokenizer {
 public:
  BytePairTokenizer(PreTokenizer pre_tokenizer, BytePairEncoder encoder, AddedTokens added,
                    BytesOfId bytes_of_id)
      : pre_tokenizer_(std::move(pre_tokenizer)),
        encoder_(std::move(encoder)),
        added_(std::move(added)),
        bytes_of_id_(std::move(bytes_of_id)) {
    for (const auto& [id, bytes] : bytes_of_id_)
      vocab_size_ = std::max(vocab_size_, int64_t{id} + 1);
  }

  int64_t vocab_size() const override { return vocab_size_; }
  bool knows(int32_t id) const override { return bytes_of_id_.contains(id); }

  size_t encode_part(std::string_view text, const TextPart& part,
                     std::vector<int32_t>& out) const override {
    TextPart wanted = part;
    if (!pre_tokenizer_.begins_anywhere()) {
      if (part.goes_on) return 0;
      wanted = {};
    }
    PatternWork work(text.size());
    // Text repeats its words, so most pieces are looked up; local, to stay thread-safe.
    std::unordered_map<std::string, std::vector<int32_t>, StringHash, std::equal_to<>> cache;
    const auto on_text = [&](std::string_view section, const TextPart& of_section) {
      const Pieces pieces = pre_tokenizer_.split(section, of_section, work);
      for (const std::string_view piece : pieces.views) {
        const auto known = cache.find(piece);
        if (known != cache.end()) {
          out.insert(out.end(), known->second.begin(), known->second.end());
          continue;
        }
        const auto begin = static_cast<ptrdiff_t>(out.size());
        encoder_.encode(piece, out);
        if (cache.size() < kCachedPieces) {
          cache.emplace(piece, std::vector<int32_t>(out.begin() + begin, out.end()));
        }
      }
      return pieces.taken;
    };
    return added_.split(text, wanted, on_text, [&](int32_t id) { out.push_back(id); });
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string out;
    for (const int32_t id : ids) {
      const auto known = bytes_of_id_.find(id);
      if (known == bytes_of_id_.end()) {
        throw DataError(fmt::format("tokenizer: id {} is not in the vocabulary", id));
      }
      out += known->second;
    }
    return out;
  }

 private:
  PreTokenizer pre_tokenizer_;
  BytePairEncoder encoder_;
  AddedTokens added_;
  BytesOfId bytes_of_id_;
  int64_t vocab_size_ = 0;
};

// Reads one tokenizer.json; every method throws with the file's name in front.
class JsonReader {
 public:
  using Json = rapidjson::Value;

  explicit JsonReader(std::string path) : path_(std::move(path)) {}

  std::unique_ptr<Tokenizer> read(const std::string& text) {
    rapidjson::Document document;
    document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag>(
        text.data(), text.size());
    if (document.HasParseError()) {
      refuse(fmt::format("not valid JSON at byte {}: {}", document.GetErrorOffset(),
                         rapidjson::GetParseError_En(document.GetParseError())));
    }
    if (!document.IsObject()) refuse("not a JSON object");
    const Json* model = member(document, "model");
    if (model == nullptr || !model->IsObject()) refuse("there is no model");
    check_model(*model);
    for (const char* key : {"truncation", "padding"}) check_is_off(document, key);
    if (present(member(document, "normalizer"))) {
      unsupported(fmt::format("normalizer {}", type_of(*member(document, "normalizer"))));
    }
    if (const Json* step = member(document, "pre_tokenizer"); present(step)) add_step(*step);
    const Json* decoder = member(document, "decoder");
    const bool byte_decoder = present(decoder) && type_of(*decoder) == "ByteLevel";
    if (!byte_level_ && !byte_decoder) unsupported("BPE that is not byte-level");

    const Json* ignore = member(*model, "ignore_merges");
    const bool whole = present(ignore) && ignore->IsTrue();
    BytePairEncoder encoder(whole ? BytePairEncoder::WholePieces::kLookUpFirst
                                  : BytePairEncoder::WholePieces::kMerge);
    read_vocabulary(*model, encoder);
    read_merges(*model, encoder);
    AddedTokens added = read_added(document);
    return std::make_unique<BytePairTokenizer>(PreTokenizer(std::move(steps_)), std::move(encoder),
                                               std::move(added), std::move(bytes_of_id_));
  }

 private:
  [[noreturn]] void refuse(const std::string& defect) const {
    throw DataError(fmt::format("{}: {}", path_, defect));
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    throw Unsupported(
        fmt::format("{}: {} is not supported; supported is byte-level BPE with "
                    "pre-tokenizers ByteLevel, Split and Digits",
                    path_, what));
  }

  static const Json* member(const Json& object, const char* key) {
    const auto found = object.FindMember(key);
    return found == object.MemberEnd() ? nullptr : &found->value;
  }
  static bool present(const Json* value) { return value != nullptr && !value->IsNull(); }
  static std::string string_of(const Json& value) {
    return {value.GetString(), value.GetStringLength()};
  }
  std::string type_of(const Json& value) const {
    const Json* type = value.IsObject() ? member(value, "type") : nullptr;
    return present(type) && type->IsString() ? string_of(*type) : "without a type";
  }
  bool flag(const Json& object, const char* key, bool fallback) const {
    const Json* value = member(object, key);
    if (!present(value)) return fallback;
    if (!value->IsBool()) refuse(fmt::format("{} is not true or false", key));
    return value->GetBool();
  }

  void check_model(const Json& model) const {
    if (const Json* type = member(model, "type"); present(type) && type_of(model) != "BPE") {
      unsupported(fmt::format("model type {}", type_of(model)));
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json* value = member(model, key);
      if (present(value) && !(value->IsString() && value->GetStringLength() == 0)) {
        unsupported(fmt::format("model.{}", key));
      }
    }
    if (const Json* dropout = member(model, "dropout");
        present(dropout) && !(dropout->IsNumber() && dropout->GetDouble() == 0.0)) {
      unsupported("model.dropout");
    }
    if (flag(model, "byte_fallback", false)) unsupported("model.byte_fallback");
  }

  // What cuts or fills each text for a batch of sentences; text to train on is one run of tokens.
  void check_is_off(const Json& document, const char* key) const {
    if (!present(member(document, key))) return;
    throw Unsupported(fmt::format(
        "{}: \"{}\" is not supported: it would change the length of each text; set it to "
        "null there",
        path_, key));
  }

  void add_step(const Json& step) {
    const std::string type = type_of(step);
    if (type == "Sequence") {
      const Json* list = member(step, "pretokenizers");
      if (!present(list) || !list->IsArray()) refuse("a Sequence has no pretokenizers");
      if (++depth_ > 8) refuse("pre-tokenizer sequences are nested too deep");
      for (const Json& inner : list->GetArray()) add_step(inner);
      --depth_;
    } else if (type == "ByteLevel") {
      byte_level_ = true;
      const auto prefix = flag(step, "add_prefix_space", true) ? PreTokenizerStep::PrefixSpace::kAdd
                                                               : PreTokenizerStep::PrefixSpace::kNo;
      std::shared_ptr<const Regex> regex;
      if (flag(step, "use_regex", true)) regex = std::make_shared<Regex>(kGpt2Pattern);
      steps_.push_back({std::move(regex), PreTokenizerStep::Behavior::kIsolated, prefix});
    } else if (type == "Split") {
      add_split(step);
    } else if (type == "Digits") {
      const char* pattern = flag(step, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)";
      steps_.push_back({std::make_shared<Regex>(pattern)});
    } else {
      unsupported(fmt::format("pre-tokenizer {}", type));
    }
  }

  void add_split(const Json& step) {
    using Behavior = PreTokenizerStep::Behavior;
    const Json* pattern = member(step, "pattern");
    if (!present(pattern) || !pattern->IsObject()) refuse("a Split has no pattern");
    const Json* regex = member(*pattern, "Regex");
    const Json* literal = member(*pattern, "String");
    const Json* chosen = present(regex) ? regex : literal;
    if (!present(chosen) || !chosen->IsString()) refuse("a Split has neither Regex nor String");
    std::string text = string_of(*chosen);
    if (chosen == literal) text = quoted(text);
    const Json* behavior = member(step, "behavior");
    const std::string name =
        present(behavior) && behavior->IsString() ? string_of(*behavior) : "missing";
    const bool invert = flag(step, "invert", false);
    if (name == "Isolated") {
      steps_.push_back({std::make_shared<Regex>(text), Behavior::kIsolated});
    } else if (name == "Removed") {
      steps_.push_back(
          {std::make_shared<Regex>(text), invert ? Behavior::kOnly : Behavior::kRemoved});
    } else {
      unsupported(fmt::format("Split behavior {}", name));
    }
  }

  static std::string quoted(const std::string& literal) {
    std::string out;
    for (const char c : literal) {
      const bool ascii_sign =
          static_cast<unsigned char>(c) < 0x80 && std::isalnum(static_cast<unsigned char>(c)) == 0;
      if (ascii_sign) out.push_back('\\');
      out.push_back(c);
    }
    return out;
  }

  // Remembers what an id decodes to. Two different texts under one id cannot both be right.
  void set_bytes(int64_t id, const std::string& bytes) {
    if (id < 0 || id >= kLargestId) {
      refuse(fmt::format("token id {} is out of range, expected 0 to {}", id, kLargestId - 1));
    }
    const auto [entry, is_new] = bytes_of_id_.emplace(static_cast<int32_t>(id), bytes);
    if (!is_new && entry->second != bytes)
      refuse(fmt::format("token id {} is given to two tokens", id));
  }

  void read_vocabulary(const Json& model, BytePairEncoder& encoder) {
    const Json* vocabulary = member(model, "vocab");
    if (!present(vocabulary) || !vocabulary->IsObject()) refuse("there is no model.vocab");
    for (const auto& item : vocabulary->GetObject()) {
      const std::string token = string_of(item.name);
      if (!item.value.IsInt64()) refuse(fmt::format("the id of token '{}' is no integer", token));
      const auto bytes = alphabet_.bytes_of(token);
      set_bytes(item.value.GetInt64(), bytes.value_or(token));
      if (bytes) encoder.add_token(*bytes, static_cast<int32_t>(item.value.GetInt64()));
    }
  }

  void read_merges(const Json& model, BytePairEncoder& encoder) const {
    const Json* merges = member(model, "merges");
    if (!present(merges) || !merges->IsArray()) refuse("there is no model.merges");
    size_t number = 0;
    for (const Json& merge : merges->GetArray()) {
      std::string left, right;
      if (merge.IsString()) {
        const std::string both = string_of(merge);
        const size_t space = both.find(' ');
        if (space != std::string::npos) {
          left = both.substr(0, space);
          right = both.substr(space + 1);
        }
      } else if (merge.IsArray() && merge.Size() == 2 && merge[0].IsString() &&
                 merge[1].IsString()) {
        left = string_of(merge[0]);
        right = string_of(merge[1]);
      }
      const auto left_bytes = alphabet_.bytes_of(left);
      const auto right_bytes = alphabet_.bytes_of(right);
      if (left.empty() || right.empty() || !left_bytes || !right_bytes) {
        refuse(fmt::format("merge {} is not a pair of byte-level tokens", number));
      }
      encoder.add_merge(*left_bytes, *right_bytes);
      ++number;
    }
  }

  AddedTokens read_added(const Json& document) {
    std::vector<AddedToken> out;
    const Json* list = member(document, "added_tokens");
    if (!present(list)) return AddedTokens(std::move(out));
    if (!list->IsArray()) refuse("added_tokens is not a list");
    for (const Json& item : list->GetArray()) {
      const Json* id = item.IsObject() ? member(item, "id") : nullptr;
      const Json* content = item.IsObject() ? member(item, "content") : nullptr;
      if (!present(id) || !id->IsInt64() || !present(content) || !content->IsString() ||
          content->GetStringLength() == 0) {
        refuse("an added token lacks its id or content");
      }
      if (flag(item, "single_word", false)) unsupported("an added token with single_word");
      const auto strip = [&](const char* key) {
        return flag(item, key, false) ? AddedToken::Strip::kStrip : AddedToken::Strip::kKeep;
      };
      const std::string text = string_of(*content);
      if (text.size() > AddedTokens::kLongest) {
        refuse(fmt::format("an added token has {} bytes, expected at most {}", text.size(),
                           AddedTokens::kLongest));
      }
      const auto same = alphabet_.bytes_of(text);
      const int64_t number = id->GetInt64();
      const auto known = number >= 0 && number < kLargestId
                             ? bytes_of_id_.find(static_cast<int32_t>(number))
                             : bytes_of_id_.end();
      if (known != bytes_of_id_.end() && known->second == same)
        bytes_of_id_.erase(known);  // decodes verbatim
      set_bytes(number, text);
      out.push_back({text, static_cast<int32_t>(number), strip("lstrip"), strip("rstrip")});
    }
    return AddedTokens(std::move(out));
  }

  std::string path_;
  ByteAlphabet alphabet_;
  std::vector<PreTokenizerStep> steps_;
  BytesOfId bytes_of_id_;
  bool byte_level_ = false;
  int depth_ = 0;
};

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_part(text, {}, ids);
  return ids;
}

size_t ByteTokenizer::encode_part(std::string_view text, const TextPart& part,
                                  std::vector<int32_t>& ids) const {
  text = text.substr(0, part.stop);
  ids.reserve(ids.size() + text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return text.size();
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string out;
  for (const int32_t id : ids) {
    if (id < 0 || id > 255) throw DataError(fmt::format("byte tokenizer: id {} is no byte", id));
    out.push_back(static_cast<char>(id));
  }
  return out;
}

std::unique_ptr<Tokenizer> load_tokenizer(FileSystem& file_system, const std::string& path) {
  const std::string text = file_system.read_text(path, kLargestFile);
  try {
    return JsonReader(path).read(text);
  } catch (const DataError& error) {
    const std::string message = error.what();
    throw DataError(message.starts_with(path) ? message : fmt::format("{}: {}", path, message));
  }
}

std::string tokenizer_digest(FileSystem& file_system, const std::string& name_or_path) {
  if (name_or_path == "byte") return name_or_path;
  const std::string text =
      file_system.read_text(find_tokenizer(file_system, name_or_path), kLargestFile);
  StreamDigest digest;
  digest.add(std::as_bytes(std::span(text)));
  return hex(digest.finish());
}

std::unique_ptr<Tokenizer> make_tokenizer(FileSystem& file_system,
                                          const std::string& name_or_path) {
  if (name_or_path == "byte") return std::make_unique<ByteTokenizer>();
  return load_tokenizer(file_system, find_tokenizer(file_system, name_or_path));
}

}  // namespace ds
