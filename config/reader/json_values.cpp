#include "config/reader/json_values.h"

#include <rapidjson/encodedstream.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// Hears what the parser reads and keeps none of it.
struct Nobody : rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Nobody> {
  bool Default() { return true; }  // NOLINT(readability-convert-member-functions-to-static)
};

}  // namespace

std::vector<JsonValueText> json_values(std::string_view text, const std::string& source) {
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseStopWhenDoneFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseValidateEncodingFlag;
  std::vector<JsonValueText> values;
  int64_t line = 1;
  const auto pass = [&](size_t count) {
    line += std::count(text.begin(), text.begin() + narrow<int64_t>(count), '\n');
    text.remove_prefix(count);
  };
  for (;;) {
    pass(std::min(text.find_first_not_of(kSpace), text.size()));
    if (text.empty()) return values;
    rapidjson::MemoryStream bytes(text.data(), text.size());
    rapidjson::EncodedInputStream<rapidjson::UTF8<>, rapidjson::MemoryStream> stream(bytes);
    rapidjson::Reader reader;
    Nobody nobody;
    const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, nobody);
    if (result.IsError()) {
      pass(std::min(result.Offset(), text.size()));
      throw DataError(fmt::format("{}:{}: not valid JSON: {}", source, line,
                                  rapidjson::GetParseError_En(result.Code())));
    }
    const size_t end = std::min(stream.Tell(), text.size());
    values.push_back({.text = text.substr(0, end), .line = line});
    pass(end);
  }
}

std::string json_quoted(std::string_view text) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>,
                    rapidjson::CrtAllocator, rapidjson::kWriteValidateEncodingFlag>
      out(buffer);
  if (!out.String(text.data(), narrow<rapidjson::SizeType>(text.size()))) {
    throw DataError("the text is no UTF-8, which JSON has to be");
  }
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace ds
