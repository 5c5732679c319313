// How a shard of llm.c begins: 256 int32, of which the first three are a magic number, a version
// and the number of tokens, and the others 0. Version 1 has tokens of uint16, version 7 of uint32.
#pragma once

#include <array>
#include <cstdint>

#include "core/values/index.h"

namespace ds {

using LlmcHeader = std::array<int32_t, 256>;

struct LlmcKind {
  int32_t magic = 0, version = 0;
  int token_bytes = 0;
};
inline constexpr std::array<LlmcKind, 2> kLlmcKinds{
    {{.magic = 20240520, .version = 1, .token_bytes = 2},
     {.magic = 20240801, .version = 7, .token_bytes = 4}}};

// `token_bytes`: of one of the kinds.
inline LlmcHeader llmc_header(int token_bytes, int64_t tokens) {
  const LlmcKind& kind = kLlmcKinds[token_bytes == kLlmcKinds[0].token_bytes ? 0 : 1];
  return {kind.magic, kind.version, narrow<int32_t>(tokens)};
}

}  // namespace ds
