#include "data/tokenizer/forms/protobuf_fields.h"

#include <cstring>

#include "core/status/error.h"

namespace ds {

uint64_t ProtobufFields::take_varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= uint64_t{byte & 0x7fU} << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  throw DataError(fmt::format("{}: a number of more than 64 bits", message_));
}

std::string_view ProtobufFields::take(uint64_t count) {
  if (count > rest_.size()) {
    throw DataError(fmt::format("{}: a field of {} bytes, of which {} are there", message_, count,
                                rest_.size()));
  }
  const std::string_view out = rest_.substr(0, static_cast<size_t>(count));
  rest_.remove_prefix(out.size());
  return out;
}

bool ProtobufFields::next() {
  if (rest_.empty()) return false;
  const uint64_t tag = take_varint();
  number_ = static_cast<uint32_t>(tag >> 3);
  if (tag >> 3 == 0 || tag >> 32 != 0)
    throw DataError(fmt::format("{}: {} is no number of a field", message_, tag >> 3));
  kind_ = static_cast<Kind>(tag & 7U);
  switch (kind_) {
    case Kind::kVarint:
      varint_ = take_varint();
      return true;
    case Kind::kFixed64:
      bytes_ = take(8);
      return true;
    case Kind::kFixed32:
      bytes_ = take(4);
      return true;
    case Kind::kBytes:
      bytes_ = take(take_varint());
      return true;
  }
  throw DataError(fmt::format("{}: field {} is of wire type {}, expected 0, 1, 2 or 5", message_,
                              number_, tag & 7U));
}

void ProtobufFields::require(Kind kind, const char* expected) const {
  if (kind_ == kind) return;
  throw DataError(fmt::format("{}: field {} is of wire type {}, expected {}", message_, number_,
                              static_cast<int>(kind_), expected));
}

int64_t ProtobufFields::integer() const {
  require(Kind::kVarint, "an integer");
  return static_cast<int64_t>(varint_);
}

float ProtobufFields::number32() const {
  require(Kind::kFixed32, "a number of 32 bits");
  float value = 0;  // little-endian, as this machine is
  std::memcpy(&value, bytes_.data(), sizeof(value));
  return value;
}

std::string_view ProtobufFields::bytes() const {
  require(Kind::kBytes, "bytes");
  return bytes_;
}

}  // namespace ds
