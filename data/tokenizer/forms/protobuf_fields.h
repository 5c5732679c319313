// The fields of one message of Protocol Buffers, in the order in which they are written (pure).
// Messages within it are bytes until somebody reads them likewise, so that nothing here recurses.
#pragma once

#include <cstdint>
#include <string_view>

namespace ds {

class ProtobufFields {
 public:
  enum class Kind { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  // `bytes` outlive this. `message`: what it is, for errors.
  ProtobufFields(std::string_view bytes, const char* message) : rest_(bytes), message_(message) {}

  // Goes to the next field; false at the end. DataError for what is no message, such as a field
  // that ends beyond it.
  bool next();
  uint32_t number() const { return number_; }

  // The value of the field. DataError, naming it, where it is of another kind.
  int64_t integer() const;
  bool flag() const { return integer() != 0; }
  float number32() const;
  std::string_view bytes() const;

 private:
  uint64_t take_varint();
  std::string_view take(uint64_t count);
  void require(Kind kind, const char* expected) const;

  std::string_view rest_;
  const char* message_;
  uint32_t number_ = 0;
  Kind kind_ = Kind::kVarint;
  uint64_t varint_ = 0;
  std::string_view bytes_;
};

}  // namespace ds
