#include "data/tokenizer/forms/forms.h"

#include <rapidjson/error/en.h>

#include <algorithm>
#include <array>

#include "data/tokenizer/forms/vocabularies.h"

namespace ds {
namespace {

constexpr int64_t kLargestFile = int64_t{1} << 28;

struct Form {
  const char* file;
  std::string (*text)(FileSystem& files, const std::string& path);
};
constexpr std::array kForms{
    Form{"tokenizer.json",
         [](FileSystem& files, const std::string& path) {
           return files.read_text(path, kLargestFile);
         }},
    Form{"vocab.txt", &text_of_word_pieces},
    Form{"vocab.json", &text_of_byte_pairs},
};

}  // namespace

std::optional<std::string> tokenizer_file_in(FileSystem& files, const std::string& folder) {
  for (const Form& form : kForms) {
    std::string path = join_path(folder, form.file);
    if (files.exists(path)) return path;
  }
  return std::nullopt;
}

bool is_tokenizer_file(const std::string& name) {
  return std::ranges::find(kForms, name, &Form::file) != kForms.end();
}

std::string tokenizer_text(FileSystem& files, const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const auto form = std::ranges::find_if(kForms, [&](const Form& f) { return name == f.file; });
  return (form == kForms.end() ? kForms.front() : *form).text(files, path);
}

rapidjson::Document tokenizer_document(FileSystem& files, const std::string& path) {
  const std::string text = tokenizer_text(files, path);
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag>(
      text.data(), text.size());
  if (document.HasParseError()) {
    throw DataError(fmt::format("{}: not valid JSON at byte {}: {}", path,
                                document.GetErrorOffset(),
                                rapidjson::GetParseError_En(document.GetParseError())));
  }
  if (!document.IsObject()) throw DataError(path + ": not a JSON object");
  return document;
}

}  // namespace ds
