#include "data/tokenizer/forms/ranked_bytes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "core/status/error.h"
#include "data/tokenizer/forms/beside.h"
#include "data/tokenizer/forms/json_object.h"
#include "data/tokenizer/forms/patterns.h"
#include "data/tokenizer/text/base64.h"
#include "data/tokenizer/text/byte_letters.h"

namespace ds {
namespace {

// Joining costs as much as the longest token is long.
constexpr size_t kLongestToken = 4096;             // bytes
constexpr int64_t kMostTokens = int64_t{1} << 21;  // ten times as many as there are in use
constexpr int64_t kLargestRank = std::numeric_limits<int32_t>::max();

struct Special {
  std::string token;
  int64_t id;
};
using Specials = std::vector<Special>;

// What a kind of tokenizer does besides its ranks.
struct Encoding {
  const char* name;  // of the class, or of the file
  const char* pattern;
  Specials (*specials)(int64_t ranks);  // how many ranks there are
  const char* bos = "";                 // put before texts
  const char* eos = "<|endoftext|>";
  bool composes = false;  // into NFC
};

Specials in_a_row(int64_t first, const std::vector<std::string>& tokens) {
  Specials out;
  for (const std::string& token : tokens) out.push_back({token, first++});
  return out;
}

Specials specials_of_llama3(int64_t ranks) {
  const auto reserved = [](int i) { return fmt::format("<|reserved_special_token_{}|>", i); };
  std::vector<std::string> tokens{
      "<|begin_of_text|>", "<|end_of_text|>",     reserved(0),         reserved(1), reserved(2),
      reserved(3),         "<|start_header_id|>", "<|end_header_id|>", reserved(4), "<|eot_id|>"};
  for (int i = 5; i < 251; ++i) tokens.push_back(reserved(i));
  return in_a_row(ranks, tokens);
}

Specials specials_of_qwen(int64_t ranks) {
  std::vector<std::string> tokens{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  for (int i = 0; i < 205; ++i) tokens.push_back(fmt::format("<|extra_{}|>", i));
  return in_a_row(ranks, tokens);
}

constexpr Encoding kLlama3{.name = "Llama",
                           .pattern = kLlama3Pattern,
                           .specials = &specials_of_llama3,
                           .bos = "<|begin_of_text|>",
                           .eos = "<|end_of_text|>"};
constexpr Encoding kQwen{
    .name = "QWen", .pattern = kQwenPattern, .specials = &specials_of_qwen, .composes = true};
// OpenAI's, whose files are called like this and ".tiktoken".
constexpr std::array kNamed{
    Encoding{.name = "cl100k_base",
             .pattern = kLlama3Pattern,
             .specials = [](int64_t) -> Specials {
               return {{"<|endoftext|>", 100257},
                       {"<|fim_prefix|>", 100258},
                       {"<|fim_middle|>", 100259},
                       {"<|fim_suffix|>", 100260},
                       {"<|endofprompt|>", 100276}};
             }},
    Encoding{.name = "o200k_base",
             .pattern = kO200kPattern,
             .specials = [](int64_t) -> Specials {
               return {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}};
             }},
    Encoding{.name = "r50k_base",
             .pattern = kGpt2Pattern,
             .specials = [](int64_t) -> Specials {
               return {{"<|endoftext|>", 50256}};
             }},
    Encoding{.name = "p50k_base",
             .pattern = kGpt2Pattern,
             .specials = [](int64_t) -> Specials {
               return {{"<|endoftext|>", 50256}};
             }},
};

const Encoding& encoding_of(const Beside& beside, const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  for (const Encoding& known : kNamed) {
    if (name == std::string(known.name) + ".tiktoken") return known;
  }
  const std::optional<std::string> named = beside.tokenizer_class(), model = beside.model_type();
  const auto is_any = [](const std::string& wanted, const auto&... known) {
    return (is_class(wanted, known) || ...);
  };
  if (named) {
    if (is_class(*named, kQwen.name)) return kQwen;
    if (is_class(*named, kLlama3.name)) return kLlama3;
    if (!is_any(*named, "PreTrained", "TokenizersBackend")) beside.refuse_class(*named);
  }
  if (model && is_class(*model, kLlama3.name)) return kLlama3;
  if (model && is_class(*model, kQwen.name)) return kQwen;
  throw Unsupported(fmt::format(
      "{}: the file has tokens alone, and nothing known says how texts are cut into words before "
      "and which tokens are special; known are tokenizer_class LlamaTokenizer (Llama 3) and "
      "QWenTokenizer of a tokenizer_config.json beside it, model_type llama and qwen of a "
      "config.json, and the names {}.tiktoken of OpenAI{}",
      path, "cl100k_base, o200k_base, p50k_base, r50k_base",
      model ? fmt::format("; here model_type is {}", *model) : ""));
}

// Tokens by their ids. DataError for one that is there twice, or is none.
class Tokens {
 public:
  void add(std::string bytes, int64_t id) {
    if (bytes.empty()) throw DataError(fmt::format("token {} is empty", id));
    if (bytes.size() > kLongestToken) {
      throw DataError(fmt::format("token {} has {} bytes, expected at most {}", id, bytes.size(),
                                  kLongestToken));
    }
    if (std::ssize(all_) == kMostTokens)
      throw DataError(fmt::format("it has more than {} tokens", kMostTokens));
    const auto [entry, is_new] = all_.emplace(std::move(bytes), id);
    if (!is_new)
      throw DataError(fmt::format("token {} is the same as token {}", id, entry->second));
    largest_ = std::max(largest_, id);
  }
  int64_t end() const { return largest_ + 1; }
  void write(JsonText& json) const {
    json.begin("model", "RankedBytes");
    json.out().Key("vocab");
    json.out().StartObject();
    for (const auto& [bytes, id] : all_) {
      json.string(to_byte_letters(bytes));
      json.out().Int64(id);
    }
    json.out().EndObject();
    json.out().EndObject();
  }

 private:
  std::map<std::string, int64_t> all_;
  int64_t largest_ = -1;
};

Tokens read_lines(std::string_view bytes) {
  Tokens out;
  size_t number = 0;
  for (const std::string_view line : lines_of_file(bytes)) {
    ++number;
    if (line.empty()) continue;
    const size_t space = std::min(line.find(' '), line.size());
    auto token = from_base64(line.substr(0, space));
    const std::string_view written = line.substr(std::min(space + 1, line.size()));
    int64_t rank = -1;
    const auto [end, error] =
        std::from_chars(written.data(), written.data() + written.size(), rank);
    if (!token || error != std::errc() || end != written.data() + written.size() || rank < 0)
      throw DataError(fmt::format("line {} is not a token in base64 and its rank", number));
    if (rank > kLargestRank) {
      throw DataError(fmt::format("line {} has rank {}, which is out of range, expected 0 to {}",
                                  number, rank, kLargestRank));
    }
    out.add(std::move(*token), rank);
  }
  return out;
}

void write_steps(JsonText& json, const std::string& pattern, bool composes) {
  if (composes) {
    json.begin("normalizer", "NFC");
    json.out().EndObject();
  }
  json.begin("pre_tokenizer", "Sequence");
  json.out().Key("pretokenizers");
  json.out().StartArray();
  json.out().StartObject();
  json.text("type", "Split");
  json.out().Key("pattern");
  json.out().StartObject();
  json.text("Regex", pattern);
  json.out().EndObject();
  json.text("behavior", "Isolated");
  json.out().EndObject();
  json.out().StartObject();
  json.text("type", "ByteLevel");
  json.flag("add_prefix_space", false);
  json.flag("use_regex", false);
  json.out().EndObject();
  json.out().EndArray();
  json.out().EndObject();
  json.begin("decoder", "ByteLevel");
  json.out().EndObject();
}

std::map<std::string, AddedBeside> as_added(const Specials& specials) {
  std::map<std::string, AddedBeside> out;
  for (const auto& [token, id] : specials) out[token] = {.id = id, .flags = {true, false}};
  return out;
}

}  // namespace

bool are_ranked_lines(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, std::min(bytes.find('\n'), 2 * kLongestToken));
  const size_t space = line.find(' ');
  return space != std::string_view::npos && space > 0 && from_base64(line.substr(0, space)) &&
         space + 1 < line.size() && line[space + 1] >= '0' && line[space + 1] <= '9';
}

std::string text_of_tiktoken(FileSystem& files, const std::string& path, std::string_view bytes) {
  const Beside beside(files, path);
  const Encoding& known = encoding_of(beside, path);
  try {
    const Tokens tokens = read_lines(bytes);
    // Those of a later model of a family have other names, which its configuration lists.
    std::map<std::string, AddedBeside> added = beside.added();
    if (added.empty()) added = as_added(known.specials(tokens.end()));
    std::map<std::string, std::string> roles;
    for (const auto& [role, fallback] :
         {std::pair{"bos_token", known.bos}, std::pair{"eos_token", known.eos}}) {
      const std::string token = beside.token(role, fallback);
      if (token.empty()) continue;
      const auto found = added.find(token);
      if (found == added.end()) beside.refuse_role(role, token);
      found->second.flags = {true, false};
      roles.emplace(role, token);
    }
    JsonText json;
    json.out().StartObject();
    write_steps(json, known.pattern, known.composes);
    // "bos_token": "" means that nothing is put before a text.
    if (const auto bos = roles.find("bos_token"); known.bos[0] != '\0' && bos != roles.end())
      write_template(json, FrameToken{bos->second, added.at(bos->second).id}, std::nullopt);
    write_added_tokens(json, added);
    write_roles(json, roles);
    tokens.write(json);
    return json.finish();
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: no ranks of tokens: {}", path, error.what()));
  }
}

namespace {

constexpr int64_t kMostSpecials = 100000;

// What a tekken.json before version 7 leaves out.
const std::vector<std::string>& first_specials() {
  static const std::vector<std::string> made{"<unk>",
                                             "<s>",
                                             "</s>",
                                             "[INST]",
                                             "[/INST]",
                                             "[AVAILABLE_TOOLS]",
                                             "[/AVAILABLE_TOOLS]",
                                             "[TOOL_RESULTS]",
                                             "[/TOOL_RESULTS]",
                                             "[TOOL_CALLS]",
                                             "[IMG]",
                                             "<pad>",
                                             "[IMG_BREAK]",
                                             "[IMG_END]",
                                             "[PREFIX]",
                                             "[MIDDLE]",
                                             "[SUFFIX]",
                                             "[SYSTEM_PROMPT]",
                                             "[/SYSTEM_PROMPT]",
                                             "[TOOL_CONTENT]"};
  return made;
}

class TekkenReader {
 public:
  explicit TekkenReader(const rapidjson::Document& document) : document_(document) {}

  std::string json() {
    const Value& config = require(document_, "config", "an object", &Value::IsObject);
    const std::string pattern = text(require(config, "pattern", "a text", &Value::IsString));
    const int64_t specials = count(config, "default_num_special_tokens", kMostSpecials);
    const int64_t size = count(config, "default_vocab_size", kMostTokens);
    if (size < specials) {
      throw DataError(
          fmt::format("default_vocab_size is {}, less than its {} special tokens", size, specials));
    }
    const Tokens tokens = read_vocabulary(size - specials, specials);
    const auto added = as_added(read_specials(config, specials));
    std::map<std::string, std::string> roles;
    for (const auto& [role, token] : {std::pair{"bos_token", "<s>"},
                                      {"eos_token", "</s>"},
                                      {"pad_token", "<pad>"},
                                      {"unk_token", "<unk>"}}) {
      if (added.contains(token)) roles.emplace(role, token);
    }
    JsonText json;
    json.out().StartObject();
    write_steps(json, pattern, false);
    if (roles.contains("bos_token"))
      write_template(json, FrameToken{"<s>", added.at("<s>").id}, std::nullopt);
    write_added_tokens(json, added);
    write_roles(json, roles);
    tokens.write(json);
    return json.finish();
  }

 private:
  using Value = rapidjson::Value;

  static const Value& require(const Value& object, const char* key, const char* kind,
                              bool (Value::*is)() const) {
    const Value* const found = last_member(object, key);
    if (found == nullptr || !(found->*is)())
      throw DataError(fmt::format("\"{}\" is not {}", key, kind));
    return *found;
  }
  static std::string text(const Value& value) {
    return {value.GetString(), value.GetStringLength()};
  }
  static int64_t count(const Value& object, const char* key, int64_t most) {
    const int64_t value = require(object, key, "an integer", &Value::IsInt64).GetInt64();
    if (value < 0 || value > most)
      throw DataError(fmt::format("\"{}\" is {}, expected 0 to {}", key, value, most));
    return value;
  }

  Tokens read_vocabulary(int64_t wanted, int64_t first_id) const {
    const Value& list = require(document_, "vocab", "a list", &Value::IsArray);
    if (list.Size() < wanted) {
      throw DataError(fmt::format("\"vocab\" lists {} tokens, and default_vocab_size wants {}",
                                  list.Size(), wanted));
    }
    Tokens out;
    for (int64_t rank = 0; rank < wanted; ++rank) {
      const Value& item = list[static_cast<rapidjson::SizeType>(rank)];
      const auto refuse = [rank] {
        throw DataError(
            fmt::format("token {} of \"vocab\" is no object of that rank with its "
                        "token_bytes in base64",
                        rank));
      };
      if (!item.IsObject()) refuse();
      const Value* const number = last_member(item, "rank");
      const Value* const bytes = last_member(item, "token_bytes");
      if (number == nullptr || bytes == nullptr || !number->IsInt64() ||
          number->GetInt64() != rank || !bytes->IsString()) {
        refuse();
      }
      auto token = from_base64(text(*bytes));
      if (!token) refuse();
      out.add(std::move(*token), first_id + rank);
    }
    return out;
  }

  Specials read_specials(const Value& config, int64_t wanted) const {
    std::vector<std::string> names;
    const Value* const list = last_member(document_, "special_tokens");
    if (list == nullptr) {
      require_early(config);
      names = first_specials();
    } else {
      if (!list->IsArray()) throw DataError("\"special_tokens\" is not a list");
      for (const Value& item : list->GetArray()) {
        if (!item.IsObject()) throw DataError("a special token is no object");
        if (require(item, "rank", "an integer", &Value::IsInt64).GetInt64() != std::ssize(names))
          throw DataError(fmt::format("special token {} has another rank", names.size()));
        names.push_back(text(require(item, "token_str", "a text", &Value::IsString)));
      }
    }
    if (std::ssize(names) > wanted) {
      throw DataError(fmt::format("it has {} special tokens, and default_num_special_tokens is {}",
                                  names.size(), wanted));
    }
    for (int64_t i = std::ssize(names); i < wanted; ++i)
      names.push_back(fmt::format("<SPECIAL_{}>", i));
    return in_a_row(0, names);
  }

  static void require_early(const Value& config) {
    const std::string version = text(require(config, "version", "a text", &Value::IsString));
    for (const char* const early : {"v1", "v2", "v3", "v7"}) {
      if (version == early) return;
    }
    throw DataError(
        fmt::format("it has no special_tokens, which a file of version {} has to list", version));
  }

  const rapidjson::Document& document_;
};

}  // namespace

std::string text_of_tekken(FileSystem& files, const std::string& path) {
  const rapidjson::Document document = read_json_object(files, path, kLargestVocabulary);
  try {
    return TekkenReader(document).json();
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: no tekken.json: {}", path, error.what()));
  }
}

}  // namespace ds
