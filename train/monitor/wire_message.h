// A protobuf message, field by field, as it lies on the wire. For the few messages of formats that
// are not ours (TensorBoard, Weights & Biases), whose .proto files we have no wish to carry along.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ds {

class WireMessage {
 public:
  WireMessage& integer(int field, int64_t value);        // int32, int64, bool and enumerations
  WireMessage& real(int field, double value);            // double
  WireMessage& real32(int field, float value);           // float
  WireMessage& text(int field, std::string_view value);  // string and bytes
  WireMessage& message(int field, const WireMessage& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  enum Kind : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };
  void varint(uint64_t value);
  void key(int field, Kind kind) { varint((static_cast<uint64_t>(field) << 3) | kind); }

  std::string bytes_;
};

// Little-endian, as these formats have their numbers.
template <class Integer>
void append_little_endian(std::string& to, Integer value) {
  for (size_t byte = 0; byte < sizeof(Integer); ++byte) {
    to.push_back(static_cast<char>((value >> (8 * byte)) & 0xFF));
  }
}

}  // namespace ds
