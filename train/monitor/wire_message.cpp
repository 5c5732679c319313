#include "train/monitor/wire_message.h"

#include <bit>

namespace ds {

void WireMessage::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>((value & 0x7F) | 0x80));
  bytes_.push_back(static_cast<char>(value));
}

WireMessage& WireMessage::integer(int field, int64_t value) {
  key(field, kVarint);
  varint(static_cast<uint64_t>(value));
  return *this;
}

WireMessage& WireMessage::real(int field, double value) {
  key(field, kFixed64);
  append_little_endian(bytes_, std::bit_cast<uint64_t>(value));
  return *this;
}

WireMessage& WireMessage::real32(int field, float value) {
  key(field, kFixed32);
  append_little_endian(bytes_, std::bit_cast<uint32_t>(value));
  return *this;
}

WireMessage& WireMessage::text(int field, std::string_view value) {
  key(field, kLength);
  varint(value.size());
  bytes_ += value;
  return *this;
}

}  // namespace ds
