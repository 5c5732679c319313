#include "config/reader/json_members.h"

#include <rapidjson/encodedstream.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>

#include "core/status/error.h"

namespace ds {
namespace {

using Length = rapidjson::SizeType;

// Hears what the parser reads and writes the value of each member anew. An event that returns false
// ends the parsing.
class Members {
 public:
  explicit Members(const std::string& place) : place_(place) {}
  std::vector<JsonMember> take() { return std::move(members_); }

  bool Null() {
    return value([&] { writer_.Null(); });
  }
  bool Bool(bool truth) {
    return value([&] { writer_.Bool(truth); });
  }
  bool RawNumber(const char* text, Length length, bool /*copy*/) {
    return value([&] { writer_.RawValue(text, length, rapidjson::kNumberType); });
  }
  bool String(const char* text, Length length, bool /*copy*/) {
    if (depth_ == 1) {
      members_.back().is_string = true;
      members_.back().text.assign(text, length);
    }
    return value([&] { writer_.String(text, length); });
  }
  bool StartObject() {
    if (++depth_ > 1) writer_.StartObject();
    return true;
  }
  bool Key(const char* text, Length length, bool /*copy*/) {
    if (depth_ > 1) return writer_.Key(text, length);
    const std::string name(text, length);
    if (std::ranges::find(members_, name, &JsonMember::name) != members_.end()) {
      throw DataError(fmt::format("{}: the field \"{}\" comes twice; leave one out", place_, name));
    }
    members_.emplace_back().name = name;
    buffer_.Clear();
    writer_.Reset(buffer_);
    return true;
  }
  bool EndObject(Length /*count*/) {
    return --depth_ == 0 || ended([&] { writer_.EndObject(); });
  }
  bool StartArray() {
    if (depth_ == 0) no_object();
    ++depth_;
    return writer_.StartArray();
  }
  bool EndArray(Length /*count*/) {
    --depth_;
    return ended([&] { writer_.EndArray(); });
  }
  // Numbers come as texts, so that these are never called.
  bool Int(int /*number*/) { return false; }
  bool Uint(unsigned /*number*/) { return false; }
  bool Int64(int64_t /*number*/) { return false; }
  bool Uint64(uint64_t /*number*/) { return false; }
  bool Double(double /*number*/) { return false; }

 private:
  [[noreturn]] void no_object() const {
    throw DataError(fmt::format("{}: no JSON object; each line must be one", place_));
  }
  template <class Write>
  bool value(const Write& write) {
    if (depth_ == 0) no_object();
    return ended(write);
  }
  template <class Write>
  bool ended(const Write& write) {
    write();
    if (depth_ == 1) members_.back().json.assign(buffer_.GetString(), buffer_.GetSize());
    return true;
  }

  const std::string& place_;
  std::vector<JsonMember> members_;
  int64_t depth_ = 0;
  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer> writer_{buffer_};
};

}  // namespace

std::vector<JsonMember> json_members(std::string_view text, const std::string& place) {
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseValidateEncodingFlag;
  rapidjson::MemoryStream bytes(text.data(), text.size());
  rapidjson::EncodedInputStream<rapidjson::UTF8<>, rapidjson::MemoryStream> stream(bytes);
  rapidjson::Reader reader;
  Members members(place);
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, members);
  if (result.IsError()) {
    throw DataError(fmt::format("{}: not valid JSON at byte {} of the line: {}", place,
                                result.Offset(), rapidjson::GetParseError_En(result.Code())));
  }
  return members.take();
}

}  // namespace ds
