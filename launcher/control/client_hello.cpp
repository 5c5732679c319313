#include "launcher/control/client_hello.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace ds {
namespace {

constexpr uint8_t kHandshakeRecord = 22;  // RFC 8446, section 5.1
constexpr uint8_t kTlsMajorVersion = 3;
constexpr size_t kRecordHeader = 5;
constexpr uint8_t kClientHelloMessage = 1;  // section 4
constexpr size_t kVersionAndRandom = 2 + 32;
constexpr size_t kServerNameExtension = 0;  // RFC 6066, section 3
constexpr size_t kHostName = 0;

uint8_t byte_at(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

// Takes from the front; nothing is given once something was missing.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::optional<size_t> number(size_t width) {
    const std::optional<std::string_view> digits = take(width);
    if (!digits) return std::nullopt;
    size_t value = 0;
    for (const char digit : *digits) value = value << 8 | static_cast<uint8_t>(digit);
    return value;
  }
  std::optional<std::string_view> take(size_t count) {
    if (count > bytes_.size()) {
      bytes_ = {};
      return std::nullopt;
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  // A length of `width` bytes, and as many bytes as it says.
  std::optional<std::string_view> block(size_t width) {
    const std::optional<size_t> size = number(width);
    return size ? take(*size) : std::nullopt;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

// Whether the bytes that are there may begin a record that holds a client's hello.
bool may_begin(std::string_view bytes) {
  return (bytes.empty() || byte_at(bytes, 0) == kHandshakeRecord) &&
         (bytes.size() < 2 || byte_at(bytes, 1) == kTlsMajorVersion) &&
         (bytes.size() <= kRecordHeader || byte_at(bytes, kRecordHeader) == kClientHelloMessage);
}

// Empty where the list has none.
std::optional<std::string_view> host_name(std::string_view extension) {
  Reader outer(extension);
  const std::optional<std::string_view> list = outer.block(2);
  if (!list) return std::nullopt;
  Reader names(*list);
  while (!names.at_end()) {
    const std::optional<size_t> kind = names.number(1);
    const std::optional<std::string_view> name = names.block(2);
    if (!kind || !name) return std::nullopt;
    if (*kind == kHostName) return name;
  }
  return std::string_view();
}

std::optional<std::string_view> name_in_hello(std::string_view hello) {
  Reader reader(hello);
  if (!reader.take(kVersionAndRandom) || !reader.block(1) /* session */ ||
      !reader.block(2) /* ciphers */ || !reader.block(1) /* compressions */) {
    return std::nullopt;
  }
  if (reader.at_end()) return std::string_view();
  const std::optional<std::string_view> all = reader.block(2);
  if (!all) return std::nullopt;
  Reader extensions(*all);
  while (!extensions.at_end()) {
    const std::optional<size_t> kind = extensions.number(2);
    const std::optional<std::string_view> body = extensions.block(2);
    if (!kind || !body) return std::nullopt;
    if (*kind == kServerNameExtension) return host_name(*body);
  }
  return std::string_view();
}

}  // namespace

ClientHello read_client_hello(std::string_view bytes) {
  if (!may_begin(bytes)) return {};
  if (bytes.size() < kRecordHeader) return {ClientHello::State::kIncomplete};
  Reader record(bytes.substr(kRecordHeader - 2));
  const std::optional<std::string_view> content = record.block(2);
  if (!content) return {ClientHello::State::kIncomplete};
  Reader message(*content);
  const std::optional<size_t> kind = message.number(1);
  const std::optional<std::string_view> hello = message.block(3);
  const std::optional<std::string_view> name = kind && hello ? name_in_hello(*hello) : std::nullopt;
  if (!name) return {};
  return {ClientHello::State::kRead, *name};
}

}  // namespace ds
