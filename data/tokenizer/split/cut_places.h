// Places at which a text may be cut before its normalizers, so that they do to its parts what they
// do to the whole: between characters that no normal form and no character of a person joins
// (pure).
#pragma once

#include <cstddef>
#include <string_view>

namespace ds {

class CutPlaces {
 public:
  enum class Kind {
    kNone,         // nowhere
    kBehindLines,  // between the end of a line and a line that begins with no white space
    kBeforeSpaces  // between what is no white space and a space
  };
  explicit CutPlaces(Kind kind) : kind_(kind) {}
  Kind kind() const { return kind_; }
  // The first one in the text at `from` bytes or after it; npos where there is none. The beginning
  // and the end of a text are none. Valid UTF-8; O(bytes passed over).
  size_t next(std::string_view text, size_t from) const;

 private:
  Kind kind_;
};

// Whether no place of any kind lies inside of an occurrence of `text`, wherever that is found.
bool is_never_cut(std::string_view text);

}  // namespace ds
