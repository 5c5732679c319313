#include "data/tokenizer/tokenizer_frame.h"

#include <algorithm>
#include <optional>

#include "data/tokenizer/forms/forms.h"
#include "data/tokenizer/forms/json_object.h"

namespace ds {
namespace {

using Json = rapidjson::Value;

constexpr int64_t kLargestFrame = int64_t{1} << 28;
constexpr int kDeepest = 8;  // processors inside each other

const Json* member(const Json& object, const char* key) {
  if (!object.IsObject()) return nullptr;
  const auto found = object.FindMember(key);
  return found == object.MemberEnd() || found->value.IsNull() ? nullptr : &found->value;
}

std::string text_of(const Json* value) {
  return value != nullptr && value->IsString()
             ? std::string(value->GetString(), value->GetStringLength())
             : "";
}

// The post_processor of one tokenizer.json.
class ProcessorReader {
 public:
  explicit ProcessorReader(std::string path) : path_(std::move(path)) {}

  TokenizerFrame read(const Json& processor, int depth = 0) {
    const std::string type = text_of(member(processor, "type"));
    if (type == "ByteLevel") return {};  // moves offsets only
    if (type == "TemplateProcessing") return read_template(processor);
    if (type == "RobertaProcessing" || type == "BertProcessing") {
      return {{pair_id(processor, "cls")}, {pair_id(processor, "sep")}};
    }
    if (type != "Sequence") {
      throw Unsupported(
          fmt::format("{}: post_processor {} is not supported; supported are TemplateProcessing, "
                      "ByteLevel, BertProcessing, RobertaProcessing and a Sequence of them",
                      path_, type));
    }
    const Json* list = member(processor, "processors");
    if (list == nullptr || !list->IsArray() || depth >= kDeepest)
      refuse("a Sequence has no processors");
    TokenizerFrame frame;
    for (const Json& item : list->GetArray()) {
      const TokenizerFrame outer = read(item, depth + 1);
      frame.before.insert(frame.before.begin(), outer.before.begin(), outer.before.end());
      frame.after.insert(frame.after.end(), outer.after.begin(), outer.after.end());
    }
    return frame;
  }

 private:
  [[noreturn]] void refuse(const std::string& defect) const {
    throw DataError(fmt::format("{}: post_processor: {}", path_, defect));
  }

  // ["</s>", 2]
  int32_t pair_id(const Json& processor, const char* key) const {
    const Json* pair = member(processor, key);
    if (pair == nullptr || !pair->IsArray() || pair->Size() != 2 || !(*pair)[1].IsInt()) {
      refuse(fmt::format("\"{}\" is no token with its id", key));
    }
    return (*pair)[1].GetInt();
  }

  // {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens":
  // {"<s>": {"ids": [1]}}}
  TokenizerFrame read_template(const Json& processor) const {
    const Json* single = member(processor, "single");
    if (single == nullptr || !single->IsArray()) refuse("a template has no list \"single\"");
    TokenizerFrame frame;
    bool after = false;
    for (const Json& piece : single->GetArray()) {
      if (member(piece, "Sequence") != nullptr) {
        if (after) refuse("a template repeats the text");
        after = true;
        continue;
      }
      const Json* special = member(piece, "SpecialToken");
      if (special == nullptr)
        refuse("a template has a piece that is neither Sequence nor SpecialToken");
      append_ids(processor, text_of(member(*special, "id")), after ? frame.after : frame.before);
    }
    if (!after) refuse("a template leaves out the text");
    return frame;
  }

  void append_ids(const Json& processor, const std::string& name, std::vector<int32_t>& to) const {
    const Json* tokens = member(processor, "special_tokens");
    const Json* token = tokens != nullptr ? member(*tokens, name.c_str()) : nullptr;
    const Json* ids = token != nullptr ? member(*token, "ids") : nullptr;
    if (ids == nullptr || !ids->IsArray())
      refuse(fmt::format("special token \"{}\" has no ids", name));
    for (const Json& id : ids->GetArray()) {
      if (!id.IsInt() || id.GetInt() < 0)
        refuse(fmt::format("special token \"{}\" has an id that is none", name));
      to.push_back(id.GetInt());
    }
  }

  std::string path_;
};

// The one id of a token of tokenizer_config.json, given as a text or as {"content": text}.
int32_t named_id(const Json& config, const char* key, const std::string& path,
                 const Tokenizer& tokenizer) {
  const Json* token = member(config, key);
  if (token != nullptr && token->IsObject()) token = member(*token, "content");
  const std::string text = text_of(token);
  const std::vector<int32_t> ids = tokenizer.encode(text);
  if (text.empty() || ids.size() != 1) {
    throw DataError(fmt::format(
        "{0}: add_{1} is set, but {1} is \"{2}\", which is {3} tokens of the tokenizer, expected "
        "one",
        path, key, text, ids.size()));
  }
  return ids[0];
}

std::optional<bool> flag(const Json& config, const char* key) {
  const Json* value = member(config, key);
  if (value == nullptr || !value->IsBool()) return std::nullopt;
  return value->GetBool();
}

// An explicit flag wins over the template.
void apply_config(const Json& config, const std::string& path, const Tokenizer& tokenizer,
                  TokenizerFrame& frame) {
  if (const auto bos = flag(config, "add_bos_token")) {
    if (!*bos) frame.before.clear();
    if (*bos && frame.before.empty())
      frame.before = {named_id(config, "bos_token", path, tokenizer)};
  }
  if (const auto eos = flag(config, "add_eos_token")) {
    if (!*eos) frame.after.clear();
    if (*eos && frame.after.empty()) frame.after = {named_id(config, "eos_token", path, tokenizer)};
  }
}

}  // namespace

TokenizerFrame read_frame(FileSystem& files, const std::string& name_or_path,
                          const Tokenizer& tokenizer) {
  if (name_or_path == "byte") return {};
  const std::string path = find_tokenizer(files, name_or_path);
  TokenizerFrame frame;
  const rapidjson::Document document = tokenizer_document(files, path);
  if (const Json* processor = member(document, "post_processor"))
    frame = ProcessorReader(path).read(*processor);
  const std::string config_path = join_path(parent_directory(path), "tokenizer_config.json");
  if (files.exists(config_path)) {
    apply_config(read_json_object(files, config_path, kLargestFrame), config_path, tokenizer,
                 frame);
  }
  for (const auto* side : {&frame.before, &frame.after}) {
    for (const int32_t id : *side) {
      if (!tokenizer.knows(id))
        throw DataError(fmt::format("{}: post_processor: id {} is no token", path, id));
    }
  }
  return frame;
}

}  // namespace ds
