#include "data/tokenizer/forms/forms.h"

#include <algorithm>
#include <array>

#include "data/tokenizer/forms/beside.h"
#include "data/tokenizer/forms/json_object.h"
#include "data/tokenizer/forms/ranked_bytes.h"
#include "data/tokenizer/forms/sentence_pieces.h"
#include "data/tokenizer/forms/tokens_beside.h"
#include "data/tokenizer/forms/vocabularies.h"

namespace ds {
namespace {

// A file with a name of its own stands for itself: what lies beside it may be another one's.
std::string text_of_json(FileSystem& files, const std::string& path) {
  std::string text = files.read_text(path, kLargestVocabulary);
  const bool is_alone = path.substr(path.rfind('/') + 1) != "tokenizer.json";
  return is_alone ? text : with_tokens_beside(files, path, std::move(text));
}

std::string text_of_model(FileSystem& files, const std::string& path) {
  const std::string bytes = files.read_text(path, kLargestVocabulary);
  return are_ranked_lines(bytes) ? text_of_tiktoken(files, path, bytes)
                                 : text_of_sentence_pieces(files, path, bytes);
}

std::string text_of_ranks(FileSystem& files, const std::string& path) {
  return text_of_tiktoken(files, path, files.read_text(path, kLargestVocabulary));
}

struct Form {
  const char* file;
  std::string (*text)(FileSystem& files, const std::string& path);
  bool names_roles = false;
};
// In the order in which they are looked for.
constexpr std::array kForms{
    Form{"tokenizer.json", &text_of_json},
    Form{"vocab.txt", &text_of_word_pieces},
    Form{"vocab.json", &text_of_byte_pairs},
    Form{"tekken.json", &text_of_tekken, true},
    Form{"tokenizer.model", &text_of_model, true},
    Form{"spiece.model", &text_of_model, true},
    Form{"sentencepiece.bpe.model", &text_of_model, true},
    Form{"tiktoken.model", &text_of_ranks, true},
    Form{"qwen.tiktoken", &text_of_ranks, true},
    Form{"cl100k_base.tiktoken", &text_of_ranks, true},
    Form{"o200k_base.tiktoken", &text_of_ranks, true},
    Form{"p50k_base.tiktoken", &text_of_ranks, true},
    Form{"r50k_base.tiktoken", &text_of_ranks, true},
};
// The form of files with names of their own.
constexpr Form kAnyModel{"tokenizer.model", &text_of_model, true};
constexpr Form kAnyRanks{"tiktoken.model", &text_of_ranks, true};

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }

const Form& form_of(const std::string& path) {
  const std::string name = name_in(path);
  for (const Form& form : kForms) {
    if (name == form.file) return form;
  }
  if (name.ends_with(".model")) return kAnyModel;
  return name.ends_with(".tiktoken") ? kAnyRanks : kForms.front();
}

}  // namespace

std::optional<std::string> tokenizer_file_in(FileSystem& files, const std::string& folder) {
  for (const Form& form : kForms) {
    std::string path = join_path(folder, form.file);
    if (files.exists(path)) return path;
  }
  return std::nullopt;
}

std::string tokenizer_folder(FileSystem& files, const std::string& name_or_path) {
  return tokenizer_file_in(files, name_or_path) ? name_or_path : parent_directory(name_or_path);
}

std::vector<std::string> tokenizer_file_names() {
  std::vector<std::string> out;
  for (const Form& form : kForms) out.emplace_back(form.file);
  return out;
}

std::string tokenizer_file_name(const std::string& path) { return form_of(path).file; }

bool stands_alone(const std::string& path) { return form_of(path).names_roles; }

std::string tokenizer_text(FileSystem& files, const std::string& path) {
  return form_of(path).text(files, path);
}

rapidjson::Document tokenizer_document(FileSystem& files, const std::string& path) {
  return parse_json_object(tokenizer_text(files, path), path);
}

std::optional<std::string> token_of_form(FileSystem& files, const std::string& path,
                                         const std::string& role) {
  if (!form_of(path).names_roles || !files.exists(path)) return std::nullopt;
  const rapidjson::Document document = tokenizer_document(files, path);
  const rapidjson::Value* const roles = last_member(document, "roles");
  const rapidjson::Value* const token = roles != nullptr ? last_member(*roles, role) : nullptr;
  if (token == nullptr || !token->IsString()) return std::nullopt;
  return std::string(token->GetString(), token->GetStringLength());
}

}  // namespace ds
