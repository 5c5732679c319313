#include "data/tokenizer/forms/forms.h"

#include <algorithm>
#include <array>

#include "data/tokenizer/forms/beside.h"
#include "data/tokenizer/forms/json_object.h"
#include "data/tokenizer/forms/sentence_pieces.h"
#include "data/tokenizer/forms/vocabularies.h"

namespace ds {
namespace {

std::string text_as_it_is(FileSystem& files, const std::string& path) {
  return files.read_text(path, kLargestVocabulary);
}

std::string text_of_model(FileSystem& files, const std::string& path) {
  const std::string bytes = files.read_text(path, kLargestVocabulary);
  return text_of_sentence_pieces(files, path, bytes);
}

struct Form {
  const char* file;
  std::string (*text)(FileSystem& files, const std::string& path);
  bool names_roles = false;
};
// In the order in which they are looked for.
constexpr std::array kForms{
    Form{"tokenizer.json", &text_as_it_is},
    Form{"vocab.txt", &text_of_word_pieces},
    Form{"vocab.json", &text_of_byte_pairs},
    Form{"tokenizer.model", &text_of_model, true},
    Form{"spiece.model", &text_of_model, true},
    Form{"sentencepiece.bpe.model", &text_of_model, true},
};
// The form of files with names of their own.
constexpr Form kAnyModel{"tokenizer.model", &text_of_model, true};

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }

const Form& form_of(const std::string& path) {
  const std::string name = name_in(path);
  for (const Form& form : kForms) {
    if (name == form.file) return form;
  }
  return name.ends_with(".model") ? kAnyModel : kForms.front();
}

}  // namespace

std::optional<std::string> tokenizer_file_in(FileSystem& files, const std::string& folder) {
  for (const Form& form : kForms) {
    std::string path = join_path(folder, form.file);
    if (files.exists(path)) return path;
  }
  return std::nullopt;
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
  const auto roles = document.FindMember("roles");
  if (roles == document.MemberEnd() || !roles->value.IsObject()) return std::nullopt;
  const auto token = roles->value.FindMember(role.c_str());
  if (token == roles->value.MemberEnd() || !token->value.IsString()) return std::nullopt;
  return std::string(token->value.GetString(), token->value.GetStringLength());
}

}  // namespace ds
