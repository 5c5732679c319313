#include "data/tokenizer/forms/vocabularies.h"

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "data/text/text_kind.h"
#include "data/tokenizer/forms/json_object.h"

namespace ds {
namespace {

using rapidjson::Value;

constexpr int64_t kLargestVocabulary = int64_t{1} << 28;

// Which sides of a text a class puts tokens on.
enum class Frame { kNone, kClsSep };

struct TokenizerClass {
  const char* name;  // without "Tokenizer" and "TokenizerFast"
  const char* unknown;
  const char* cls;
  const char* sep;
  const char* pad;
  const char* mask;
  Frame frame = Frame::kClsSep;
  bool lowercase = true;          // where the configuration doesn't say
  const char* pattern = "";       // of its own, before bytes are looked at
  bool composes = false;          // into NFC
  bool mask_takes_space = false;  // the space before it, unless the configuration says how
};

constexpr std::array kWordPieceClasses{
    TokenizerClass{"Bert", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"},
    TokenizerClass{"DistilBert", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"},
    TokenizerClass{"Electra", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"},
    TokenizerClass{"MobileBert", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"},
    TokenizerClass{"MPNet", "[UNK]", "<s>", "</s>", "<pad>", "<mask>", Frame::kClsSep, true, "",
                   false, true},
};

constexpr const char* kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::array kBytePairClasses{
    TokenizerClass{"GPT2", "<|endoftext|>", "", "", "", "", Frame::kNone},
    TokenizerClass{"Roberta", "<unk>", "<s>", "</s>", "<pad>", "<mask>"},
    TokenizerClass{"Bart", "<unk>", "<s>", "</s>", "<pad>", "<mask>"},
    TokenizerClass{"Longformer", "<unk>", "<s>", "</s>", "<pad>", "<mask>"},
    TokenizerClass{"Qwen2", "", "", "", "<|endoftext|>", "", Frame::kNone, false, kQwenPattern,
                   true},
};

constexpr std::array kAddedFlags{"special", "normalized", "lstrip", "rstrip", "single_word"};
struct Added {
  int64_t id = 0;
  std::array<std::optional<bool>, kAddedFlags.size()> flags = {};
};

std::string small_letters(std::string text) {
  std::ranges::transform(text, text.begin(), ascii_lower);
  return text;
}

// What lies beside a vocabulary.
class Beside {
 public:
  Beside(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {
    config_ = object_at("tokenizer_config.json");
  }

  const TokenizerClass& class_of(std::span<const TokenizerClass> known) const {
    const rapidjson::Document model = object_at("config.json");
    const Value* named = member(config_, "tokenizer_class");
    if (named == nullptr) named = member(model, "tokenizer_class");
    if (named == nullptr) named = member(model, "model_type");
    if (named == nullptr || !named->IsString()) return known.front();
    std::string name = named->GetString();
    for (const char* const ending : {"Fast", "Tokenizer"}) {
      if (name.ends_with(ending)) name.erase(name.rfind(ending));
    }
    for (const TokenizerClass& candidate : known) {
      if (name == candidate.name || name == small_letters(candidate.name)) return candidate;
    }
    throw Unsupported(
        fmt::format("{}: what the tokenizer of \"{}\" does besides is not known here; write a "
                    "tokenizer.json with transformers, "
                    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
                    path_, named->GetString()));
  }

  [[noreturn]] void refuse_role(const char* role, const std::string& token) const {
    throw Unsupported(fmt::format(
        "{}: its {} \"{}\" is no token of it; write a tokenizer.json with transformers, "
        "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
        path_, role, token));
  }

  bool flag(const char* key, bool fallback) const {
    const Value* value = member(config_, key);
    return value != nullptr && value->IsBool() ? value->GetBool() : fallback;
  }
  bool says(const char* key) const { return member(config_, key) != nullptr; }

  // The token in a role, as the configuration has it.
  std::string token(const char* role, const char* fallback) const {
    const Value* value = member(config_, role);
    if (value != nullptr && value->IsObject()) value = member(*value, "content");
    return value != nullptr && value->IsString() ? value->GetString() : fallback;
  }

  // Tokens that are no part of the vocabulary, or are special: the added_tokens_decoder of the
  // configuration, which also says how they are looked for, and added_tokens.json.
  std::map<std::string, Added> added() const {
    std::map<std::string, Added> out;
    const rapidjson::Document apart = object_at("added_tokens.json");
    for (const auto& item : apart.GetObject()) {
      if (item.value.IsInt64()) out[item.name.GetString()] = {.id = item.value.GetInt64()};
    }
    const Value* list = member(config_, "added_tokens_decoder");
    if (list == nullptr || !list->IsObject()) return out;
    for (const auto& item : list->GetObject()) {
      const Value* content = item.value.IsObject() ? member(item.value, "content") : nullptr;
      if (content == nullptr || !content->IsString()) continue;
      Added& token = out[content->GetString()];
      token.id = std::strtoll(item.name.GetString(), nullptr, 10);
      for (size_t i = 0; i < kAddedFlags.size(); ++i) {
        const Value* value = member(item.value, kAddedFlags.at(i));
        if (value != nullptr && value->IsBool()) token.flags.at(i) = value->GetBool();
      }
    }
    return out;
  }

  rapidjson::Document object_at(const char* name) const {
    const std::string file = join_path(parent_directory(path_), name);
    if (files_.exists(file)) return read_json_object(files_, file, kLargestVocabulary);
    rapidjson::Document none;
    none.SetObject();
    return none;
  }

 private:
  static const Value* member(const Value& object, const char* key) {
    const auto found = object.FindMember(key);
    return found == object.MemberEnd() || found->value.IsNull() ? nullptr : &found->value;
  }

  FileSystem& files_;
  std::string path_;
  rapidjson::Document config_;
};

// Writes a tokenizer.json, part by part.
class JsonText {
 public:
  using Writer = rapidjson::Writer<rapidjson::StringBuffer>;
  Writer& out() { return out_; }
  void text(const char* key, std::string_view value) {
    out_.Key(key);
    string(value);
  }
  void string(std::string_view value) {
    out_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  }
  void flag(const char* key, bool value) {
    out_.Key(key);
    out_.Bool(value);
  }
  void begin(const char* key, const char* type) {
    out_.Key(key);
    out_.StartObject();
    text("type", type);
  }
  std::string finish() {
    out_.EndObject();
    return {buffer_.GetString(), buffer_.GetSize()};
  }

 private:
  rapidjson::StringBuffer buffer_;
  Writer out_{buffer_};
};

using Ids = std::map<std::string, int64_t>;

void write_added(JsonText& json, const TokenizerClass& known, const Beside& beside,
                 const Ids& vocabulary) {
  std::map<std::string, Added> added = beside.added();
  const std::pair<const char*, const char*> roles[] = {
      {"unk_token", known.unknown}, {"cls_token", known.cls},   {"sep_token", known.sep},
      {"pad_token", known.pad},     {"mask_token", known.mask}, {"bos_token", known.cls},
      {"eos_token", known.sep}};
  for (const auto& [role, fallback] : roles) {
    const std::string token = beside.token(role, fallback);
    const auto found = vocabulary.find(token);
    if (found == vocabulary.end()) {
      if (token != fallback && !added.contains(token)) beside.refuse_role(role, token);
      continue;
    }
    const auto [entry, is_new] = added.emplace(token, Added{.id = found->second});
    std::optional<bool>& special = entry->second.flags.front();
    if (!special) special = true;
    std::optional<bool>& lstrip = entry->second.flags.at(2);
    if (is_new && known.mask_takes_space && token == known.mask) lstrip = true;
  }
  json.out().Key("added_tokens");
  json.out().StartArray();
  for (const auto& [token, how] : added) {
    json.out().StartObject();
    json.out().Key("id");
    json.out().Int64(how.id);
    json.text("content", token);
    for (size_t i = 0; i < kAddedFlags.size(); ++i) {
      if (how.flags.at(i)) json.flag(kAddedFlags.at(i), *how.flags.at(i));
    }
    json.out().EndObject();
  }
  json.out().EndArray();
}

void write_frame(JsonText& json, const TokenizerClass& known, const Beside& beside,
                 const Ids& vocabulary) {
  if (known.frame == Frame::kNone) return;
  const auto pair = [&](const char* key, const std::string& token) {
    json.out().Key(key);
    json.out().StartArray();
    json.string(token);
    const auto found = vocabulary.find(token);
    json.out().Int64(found == vocabulary.end() ? -1 : found->second);
    json.out().EndArray();
  };
  json.begin("post_processor", "BertProcessing");
  pair("cls", beside.token("cls_token", known.cls));
  pair("sep", beside.token("sep_token", known.sep));
  json.out().EndObject();
}

void write_vocabulary(JsonText& json, const Ids& vocabulary) {
  json.out().Key("vocab");
  json.out().StartObject();
  for (const auto& [token, id] : vocabulary) {
    json.string(token);
    json.out().Int64(id);
  }
  json.out().EndObject();
}

// The lines of a file, without their ends.
std::vector<std::string_view> lines_of_file(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

}  // namespace

std::string text_of_word_pieces(FileSystem& files, const std::string& path) {
  const std::string text = files.read_text(path, kLargestVocabulary);
  const Beside beside(files, path);
  const TokenizerClass& known = beside.class_of(kWordPieceClasses);
  Ids vocabulary;
  int64_t id = 0;
  for (const std::string_view line : lines_of_file(without_mark(text)))
    vocabulary[std::string(line)] = id++;
  const std::string unknown = beside.token("unk_token", known.unknown);
  if (!vocabulary.contains(unknown)) {
    throw DataError(fmt::format("{}: {} lines, and none of them is the unknown token \"{}\"", path,
                                id, unknown));
  }
  JsonText json;
  json.out().StartObject();
  const bool lowercase = beside.flag("do_lower_case", known.lowercase);
  json.begin("normalizer", "BertNormalizer");
  json.flag("clean_text", true);
  json.flag("handle_chinese_chars", beside.flag("tokenize_chinese_chars", true));
  if (beside.says("strip_accents")) json.flag("strip_accents", beside.flag("strip_accents", true));
  json.flag("lowercase", lowercase);
  json.out().EndObject();
  json.begin("pre_tokenizer", "BertPreTokenizer");
  json.out().EndObject();
  json.begin("decoder", "WordPiece");
  json.out().EndObject();
  write_frame(json, known, beside, vocabulary);
  write_added(json, known, beside, vocabulary);
  json.begin("model", "WordPiece");
  json.text("unk_token", unknown);
  write_vocabulary(json, vocabulary);
  json.out().EndObject();
  return json.finish();
}

namespace {

void write_merges(JsonText& json, FileSystem& files, const std::string& path) {
  const std::string file = join_path(parent_directory(path), "merges.txt");
  if (!files.exists(file))
    throw InputMissing(path + ": merges.txt, which belongs to it, is not beside it");
  const std::string text = files.read_text(file, kLargestVocabulary);
  json.out().Key("merges");
  json.out().StartArray();
  for (const std::string_view line : lines_of_file(text)) {
    if (!line.empty() && !line.starts_with("#version")) json.string(line);
  }
  json.out().EndArray();
}

void write_byte_steps(JsonText& json, const TokenizerClass& known, const Beside& beside) {
  const bool own_pattern = known.pattern[0] != '\0';
  if (known.composes) {
    json.begin("normalizer", "NFC");
    json.out().EndObject();
  }
  json.begin("pre_tokenizer", "Sequence");
  json.out().Key("pretokenizers");
  json.out().StartArray();
  if (own_pattern) {
    json.out().StartObject();
    json.text("type", "Split");
    json.out().Key("pattern");
    json.out().StartObject();
    json.text("Regex", known.pattern);
    json.out().EndObject();
    json.text("behavior", "Isolated");
    json.out().EndObject();
  }
  json.out().StartObject();
  json.text("type", "ByteLevel");
  json.flag("add_prefix_space", beside.flag("add_prefix_space", false));
  json.flag("use_regex", !own_pattern);
  json.out().EndObject();
  json.out().EndArray();
  json.out().EndObject();
  json.begin("decoder", "ByteLevel");
  json.out().EndObject();
}

}  // namespace

std::string text_of_byte_pairs(FileSystem& files, const std::string& path) {
  const rapidjson::Document written = read_json_object(files, path, kLargestVocabulary);
  const Beside beside(files, path);
  const TokenizerClass& known = beside.class_of(kBytePairClasses);
  Ids vocabulary;
  for (const auto& item : written.GetObject()) {
    if (!item.value.IsInt64()) {
      throw DataError(
          fmt::format("{}: the id of token '{}' is no integer", path, item.name.GetString()));
    }
    vocabulary[std::string(item.name.GetString(), item.name.GetStringLength())] =
        item.value.GetInt64();
  }
  JsonText json;
  json.out().StartObject();
  write_byte_steps(json, known, beside);
  write_frame(json, known, beside, vocabulary);
  write_added(json, known, beside, vocabulary);
  json.begin("model", "BPE");
  write_vocabulary(json, vocabulary);
  write_merges(json, files, path);
  json.out().EndObject();
  return json.finish();
}

}  // namespace ds
