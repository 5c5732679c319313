#include "data/json_lines.h"

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include <optional>
#include <vector>

namespace ds {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

class Lines {
 public:
  Lines(const std::string& path, const std::string& field,
        const std::function<void(std::string_view text, int64_t line)>& on_text)
      : path_(path), field_(field), on_text_(on_text) {}

  void take(std::string_view line) {
    ++number_;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    rapidjson::Document document;
    document.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag>(
        line.data(), line.size());
    if (document.HasParseError()) {
      refuse(fmt::format(
          "not valid JSON at byte {} of the line: {}; each line must be one JSON object",
          document.GetErrorOffset(), rapidjson::GetParseError_En(document.GetParseError())));
    }
    if (!document.IsObject()) {
      refuse("the line is no JSON object; a list of objects becomes JSON lines with: jq -c '.[]'");
    }
    const auto found = document.FindMember(field_.c_str());
    if (found == document.MemberEnd()) {
      refuse(fmt::format("there is no field \"{}\"; data.field chooses another (there are: {})",
                         field_, names_in(document)));
    }
    if (!found->value.IsString()) refuse(fmt::format("the field \"{}\" is no string", field_));
    on_text_({found->value.GetString(), found->value.GetStringLength()}, number_);
  }
  [[noreturn]] void refuse(const std::string& defect) const {
    throw DataError(fmt::format("{}:{}: {}", path_, number_, defect));
  }
  void refuse_length() {
    ++number_;
    refuse(fmt::format("the line has more than {} bytes", kLongestLine));
  }

 private:
  static std::string names_in(const rapidjson::Document& document) {
    constexpr int kShown = 8;
    std::string out;
    int shown = 0;
    for (const auto& item : document.GetObject()) {
      if (++shown > kShown) return out + ", ...";
      out += fmt::format("{}{}", out.empty() ? "" : ", ", item.name.GetString());
    }
    return out.empty() ? "none" : out;
  }

  const std::string& path_;
  const std::string& field_;
  const std::function<void(std::string_view text, int64_t line)>& on_text_;
  int64_t number_ = 0;
};

// Takes the lines of the stream until `enough`.
void read_lines(ByteStream& stream, Lines& lines, const std::function<bool()>& enough) {
  std::vector<char> chunk(kChunkBytes);
  std::string unfinished;  // the beginning of a line that goes on in the next chunk
  while (const size_t count = stream.read(chunk)) {
    std::string_view rest(chunk.data(), count);
    for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      if (unfinished.empty()) {
        lines.take(rest.substr(0, end));
      } else {
        unfinished += rest.substr(0, end);
        lines.take(unfinished);
        unfinished.clear();
      }
      if (enough()) return;
      rest.remove_prefix(end + 1);
    }
    unfinished += rest;
    if (unfinished.size() > kLongestLine) lines.refuse_length();
  }
  if (!unfinished.empty()) lines.take(unfinished);
}

}  // namespace

void for_each_json_text(ByteStream& stream, const std::string& path, const std::string& field,
                        const std::function<void(std::string_view text, int64_t line)>& on_text) {
  Lines lines(path, field, on_text);
  read_lines(stream, lines, [] { return false; });
}

std::string first_json_text(ByteStream& stream, const std::string& path, const std::string& field) {
  std::optional<std::string> first;
  const std::function<void(std::string_view, int64_t)> keep = [&](std::string_view text, int64_t) {
    first = text;
  };
  Lines lines(path, field, keep);
  read_lines(stream, lines, [&] { return first.has_value(); });
  return first.value_or("");
}

}  // namespace ds
