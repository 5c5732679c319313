// How the JSON of a file is laid out, told by its first bytes (pure): objects on lines of their
// own, which are read, or one document over the whole file, which has to be cut into such lines
// first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ds {

struct JsonShape {
  enum class Kind {
    kNone,    // no JSON, or values that are no objects
    kLines,   // each line is one object
    kList,    // one list of objects
    kObject,  // one object over several lines
  };
  Kind kind = Kind::kNone;
  int64_t lines = 0;      // of kLines: those that were looked at
  std::string list = {};  // of an object, the first member that is a list of objects; "" if none is
};

// `head`: the first kHeadBytes, where it may be cut, or the whole text.
JsonShape json_shape(std::string_view head);

// What makes JSON lines of a file that begins like this; empty where nothing is known.
std::string advice_for_json(const JsonShape& shape);

}  // namespace ds
