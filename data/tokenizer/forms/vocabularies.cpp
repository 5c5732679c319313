#include "data/tokenizer/forms/vocabularies.h"

#include <rapidjson/document.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "data/text/text_kind.h"
#include "data/tokenizer/forms/beside.h"
#include "data/tokenizer/forms/json_object.h"
#include "data/tokenizer/forms/json_text.h"
#include "data/tokenizer/forms/patterns.h"

namespace ds {
namespace {

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

constexpr std::array kBytePairClasses{
    TokenizerClass{"GPT2", "<|endoftext|>", "", "", "", "", Frame::kNone},
    TokenizerClass{"Roberta", "<unk>", "<s>", "</s>", "<pad>", "<mask>"},
    TokenizerClass{"Bart", "<unk>", "<s>", "</s>", "<pad>", "<mask>"},
    TokenizerClass{"Longformer", "<unk>", "<s>", "</s>", "<pad>", "<mask>"},
    TokenizerClass{"Qwen2", "", "", "", "<|endoftext|>", "", Frame::kNone, false, kQwenPattern,
                   true},
};

const TokenizerClass& class_of(const Beside& beside, std::span<const TokenizerClass> known) {
  const std::optional<std::string> named = beside.named_class();
  if (!named) return known.front();
  for (const TokenizerClass& candidate : known) {
    if (is_class(*named, candidate.name)) return candidate;
  }
  beside.refuse_class(*named);
}

using Ids = std::map<std::string, int64_t>;

void write_added(JsonText& json, const TokenizerClass& known, const Beside& beside,
                 const Ids& vocabulary) {
  std::map<std::string, AddedBeside> added = beside.added();
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
    const auto [entry, is_new] = added.emplace(token, AddedBeside{.id = found->second});
    std::optional<bool>& special = entry->second.flags.front();
    if (!special) special = true;
    std::optional<bool>& lstrip = entry->second.flags.at(2);
    if (is_new && known.mask_takes_space && token == known.mask) lstrip = true;
  }
  write_added_tokens(json, added);
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

}  // namespace

std::string text_of_word_pieces(FileSystem& files, const std::string& path) {
  const std::string text = files.read_text(path, kLargestVocabulary);
  const Beside beside(files, path);
  const TokenizerClass& known = class_of(beside, kWordPieceClasses);
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
  const TokenizerClass& known = class_of(beside, kBytePairClasses);
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
