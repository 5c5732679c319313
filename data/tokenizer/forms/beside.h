// What the files beside a vocabulary say about its tokens: tokenizer_config.json,
// added_tokens.json, and config.json of the model.
#pragma once

#include <rapidjson/document.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "data/tokenizer/forms/json_object.h"
#include "data/tokenizer/forms/json_text.h"

namespace ds {

inline constexpr int64_t kLargestVocabulary = int64_t{1} << 28;  // of one file, in bytes

inline constexpr std::array kAddedFlags{"special", "normalized", "lstrip", "rstrip", "single_word"};
struct AddedBeside {
  int64_t id = 0;
  std::array<std::optional<bool>, kAddedFlags.size()> flags = {};
};

// A value that is absent or null is not said. One of another kind than its key has is a DataError
// that names the file and the key.
class Beside {
 public:
  // `path`: the vocabulary's. DataError for a file beside it that is no JSON object, Unsupported
  // for what it asks of all texts that is not supported.
  Beside(FileSystem& files, std::string path);

  std::optional<std::string> tokenizer_class() const;
  std::optional<std::string> model_type() const;
  // The tokenizer_class, or else the model_type.
  std::optional<std::string> named_class() const;
  [[noreturn]] void refuse_class(const std::string& name) const;  // Unsupported
  [[noreturn]] void refuse_role(const char* role, const std::string& token) const;

  bool flag(const char* key, bool fallback) const;
  bool says(const char* key) const { return last_member(config_, key) != nullptr; }
  std::optional<int64_t> count(const char* key) const;
  // The token in a role, as the configuration has it.
  std::string token(const char* role, const char* fallback) const;
  // The tokens of all roles that the configuration names, and those it lists as special besides.
  std::vector<std::string> tokens_in_roles() const;
  // Tokens that are no part of the vocabulary, or are special: the added_tokens_decoder of the
  // configuration, which also says how they are looked for, and added_tokens.json.
  std::map<std::string, AddedBeside> added() const;

 private:
  rapidjson::Document object_at(const char* name) const;
  std::string beside(const char* name) const;  // the path of the file of that name
  [[noreturn]] void refuse_value(const char* file, const std::string& key,
                                 const char* wanted) const;
  int64_t parse_id(const std::string& text, const std::string& key) const;
  // `key`: what a refusal calls it.
  std::optional<bool> flag_of(const rapidjson::Value& object, const char* name,
                              const std::string& key) const;
  std::optional<std::string> text_of(const rapidjson::Value& object, const char* file,
                                     const char* key) const;

  FileSystem& files_;
  std::string path_;
  rapidjson::Document config_;
};

// Whether `named` says this class: by its name, or by the model_type that is its small letters.
bool is_class(const std::string& named, const std::string& known);

// Parts of a tokenizer.json: its added tokens, the tokens in roles such as "eos_token" (only those
// that are written here have them), and the tokens that are put before and after a text.
void write_added_tokens(JsonText& json, const std::map<std::string, AddedBeside>& added);
void write_roles(JsonText& json, const std::map<std::string, std::string>& roles);
struct FrameToken {
  std::string token;
  int64_t id;
};
void write_template(JsonText& json, const std::optional<FrameToken>& before,
                    const std::optional<FrameToken>& after);

// The lines of a file, without their ends.
std::vector<std::string_view> lines_of_file(std::string_view text);

}  // namespace ds
