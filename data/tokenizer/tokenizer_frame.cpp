#include "data/tokenizer/tokenizer_frame.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "data/tokenizer/forms/forms.h"
#include "data/tokenizer/forms/json_object.h"

namespace ds {
namespace {

using Json = rapidjson::Value;

constexpr int64_t kLargestFrame = int64_t{1} << 28;
constexpr int kDeepest = 8;           // processors inside each other
constexpr size_t kMostAround = 1024;  // tokens on one side of a text

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
    const std::string type = text_of(last_member(processor, "type"));
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
    const Json* list = last_member(processor, "processors");
    if (list == nullptr || !list->IsArray() || depth >= kDeepest)
      refuse("a Sequence has no processors");
    TokenizerFrame frame;
    for (const Json& item : list->GetArray()) {
      const TokenizerFrame outer = read(item, depth + 1);
      require_few(frame.before.size() + outer.before.size());
      require_few(frame.after.size() + outer.after.size());
      frame.before.insert(frame.before.begin(), outer.before.begin(), outer.before.end());
      frame.after.insert(frame.after.end(), outer.after.begin(), outer.after.end());
    }
    return frame;
  }

  // Nothing: the processor says nothing of pairs.
  std::optional<PairFrame> read_pair(const Json& processor, int depth = 0) {
    const std::string type = text_of(last_member(processor, "type"));
    if (type == "TemplateProcessing") return read_pair_template(processor);
    if (type == "RobertaProcessing" || type == "BertProcessing") {
      const int32_t separator = pair_id(processor, "sep");
      PairFrame frame{.before = {pair_id(processor, "cls")},
                      .between = {separator},
                      .after = {separator},
                      .has_segments = type == "BertProcessing"};
      if (type == "RobertaProcessing") frame.between.push_back(separator);
      return frame;
    }
    const Json* list = last_member(processor, "processors");
    std::optional<PairFrame> frame;
    if (type != "Sequence" || list == nullptr || !list->IsArray() || depth >= kDeepest)
      return frame;
    for (const Json& item : list->GetArray()) {
      if (std::optional<PairFrame> inner = read_pair(item, depth + 1)) frame = std::move(inner);
    }
    return frame;
  }

 private:
  [[noreturn]] void refuse(const std::string& defect) const {
    throw DataError(fmt::format("{}: post_processor: {}", path_, defect));
  }

  void require_few(size_t tokens) const {
    if (tokens > kMostAround) refuse(fmt::format("more than {} tokens beside a text", kMostAround));
  }

  // ["</s>", 2]
  int32_t pair_id(const Json& processor, const char* key) const {
    const Json* pair = last_member(processor, key);
    if (pair == nullptr || !pair->IsArray() || pair->Size() != 2 || !(*pair)[1].IsInt()) {
      refuse(fmt::format("\"{}\" is no token with its id", key));
    }
    return (*pair)[1].GetInt();
  }

  // {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens":
  // {"<s>": {"ids": [1]}}}
  TokenizerFrame read_template(const Json& processor) const {
    const Json* single = last_member(processor, "single");
    if (single == nullptr || !single->IsArray()) refuse("a template has no list \"single\"");
    const Named specials = special_tokens_of(processor);
    TokenizerFrame frame;
    bool after = false;
    for (const Json& piece : single->GetArray()) {
      if (last_member(piece, "Sequence") != nullptr) {
        if (after) refuse("a template repeats the text");
        after = true;
        continue;
      }
      const Json* special = last_member(piece, "SpecialToken");
      if (special == nullptr)
        refuse("a template has a piece that is neither Sequence nor SpecialToken");
      append_ids(specials, text_of(last_member(*special, "id")),
                 after ? frame.after : frame.before);
    }
    if (!after) refuse("a template leaves out the text");
    return frame;
  }

  // {"pair": [..., {"Sequence": {"id": "A", "type_id": 0}}, ..., {"Sequence": {"id": "B",
  // "type_id": 1}}, ...]}
  std::optional<PairFrame> read_pair_template(const Json& processor) const {
    const Json* pair = last_member(processor, "pair");
    if (pair == nullptr || !pair->IsArray()) return std::nullopt;
    const Named specials = special_tokens_of(processor);
    PairFrame frame;
    int64_t second_type = 0;
    std::array<std::vector<int32_t>*, 3> places{&frame.before, &frame.between, &frame.after};
    size_t place = 0;
    for (const Json& piece : pair->GetArray()) {
      const Json* const text = last_member(piece, "Sequence");
      const Json* const special = last_member(piece, "SpecialToken");
      if (text == nullptr && special == nullptr) {
        refuse("a template has a piece that is neither Sequence nor SpecialToken");
      }
      const Json* const type = last_member(text != nullptr ? *text : *special, "type_id");
      const int64_t type_id = type != nullptr && type->IsInt64() ? type->GetInt64() : 0;
      if (text != nullptr) {
        const bool is_next =
            place < 2 && text_of(last_member(*text, "id")) == (place == 0 ? "A" : "B");
        if (!is_next) refuse("a template for pairs is no text A and then a text B");
        if (++place == 2) second_type = type_id;
      } else {
        append_ids(specials, text_of(last_member(*special, "id")), *places[place]);
      }
      const bool is_second = place == 2;
      if (type_id != (is_second ? second_type : 0) || second_type > 1) {
        throw Unsupported(fmt::format(
            "{}: post_processor: segments of a pair that are not 0 and, from the second "
            "text on, 1",
            path_));
      }
    }
    if (place != 2) refuse("a template for pairs leaves out a text");
    frame.has_segments = second_type == 1;
    return frame;
  }

  // What a template calls its special tokens; of a name that stands twice the last one counts.
  using Named = std::unordered_map<std::string, const Json*>;
  static Named special_tokens_of(const Json& processor) {
    Named out;
    const Json* tokens = last_member(processor, "special_tokens");
    if (tokens == nullptr || !tokens->IsObject()) return out;
    for (const auto& [name, token] : tokens->GetObject()) out[text_of(&name)] = &token;
    return out;
  }

  void append_ids(const Named& specials, const std::string& name, std::vector<int32_t>& to) const {
    const auto token = specials.find(name);
    const Json* ids = token != specials.end() ? last_member(*token->second, "ids") : nullptr;
    if (ids == nullptr || !ids->IsArray())
      refuse(fmt::format("special token \"{}\" has no ids", name));
    require_few(to.size() + ids->Size());
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
  const Json* token = last_member(config, key);
  if (token != nullptr && token->IsObject()) token = last_member(*token, "content");
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
  const Json* value = last_member(config, key);
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

void require_known(const std::vector<int32_t>& ids, const std::string& path,
                   const Tokenizer& tokenizer) {
  for (const int32_t id : ids) {
    if (!tokenizer.knows(id))
      throw DataError(fmt::format("{}: post_processor: id {} is no token", path, id));
  }
}

}  // namespace

TokenizerFrame read_frame(FileSystem& files, const std::string& name_or_path,
                          const Tokenizer& tokenizer) {
  if (name_or_path == "byte") return {};
  const std::string path = find_tokenizer(files, name_or_path);
  TokenizerFrame frame;
  const rapidjson::Document document = tokenizer_document(files, path);
  if (const Json* processor = last_member(document, "post_processor"))
    frame = ProcessorReader(path).read(*processor);
  const std::string config_path = join_path(parent_directory(path), "tokenizer_config.json");
  if (files.exists(config_path)) {
    apply_config(read_json_object(files, config_path, kLargestFrame), config_path, tokenizer,
                 frame);
  }
  for (const auto* side : {&frame.before, &frame.after}) require_known(*side, path, tokenizer);
  return frame;
}

PairFrame read_pair_frame(FileSystem& files, const std::string& name_or_path,
                          const Tokenizer& tokenizer) {
  if (name_or_path == "byte") return {};
  const std::string path = find_tokenizer(files, name_or_path);
  const rapidjson::Document document = tokenizer_document(files, path);
  std::optional<PairFrame> frame;
  if (const Json* processor = last_member(document, "post_processor"))
    frame = ProcessorReader(path).read_pair(*processor);
  if (!frame) {
    const TokenizerFrame single = read_frame(files, name_or_path, tokenizer);
    return {.before = single.before, .between = {}, .after = single.after};
  }
  for (const auto* part : {&frame->before, &frame->between, &frame->after})
    require_known(*part, path, tokenizer);
  return *frame;
}

}  // namespace ds
