// The tokens of a tokenizer that are no part of a text, such as those that begin, end or mask
// one. They are known also where the file describes a tokenizer that this build cannot run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/files/file.h"

namespace ds {

// Their ids by what stands for them; none of "byte", and of a folder or file that is not there.
// `name_or_path`: in the words of make_tokenizer. DataError for a file that lists tokens otherwise.
std::map<std::string, int32_t> special_tokens(FileSystem& files, const std::string& name_or_path);

}  // namespace ds
