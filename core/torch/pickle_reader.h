// A pickle as inert values (core/torch/value.h): the opcodes that torch.save writes and those of
// protocols 4 and 5 for the same, on a stack of its own, so that depth in the file costs no stack
// of ours. Texts and bytes stay in the source, in place. What it does not do: call anything, look
// anything up by a name, or take memory by a length that the file only claims.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/torch/inert_calls.h"
#include "core/torch/pickle_source.h"
#include "core/torch/value.h"
#include "core/torch/value_arena.h"

namespace ds {

class PickleReader {
 public:
  // All of these outlive the values.
  PickleReader(const PickleSource& source, ValueArena& arena, TorchStorages& storages)
      : source_(source), arena_(arena), calls_(source, arena, storages) {}

  // One pickle, which begins at a byte of the source; end(): the byte after it. DataError with the
  // byte, and the name that is refused.
  TorchValue read(int64_t begin);
  int64_t end() const { return at_; }

 private:
  using Items = std::vector<TorchValue>;

  // Each carries out an opcode of its kind; false for one of another kind.
  bool push_scalar(uint8_t opcode);
  bool push_text(uint8_t opcode);
  bool open_container(uint8_t opcode);
  bool fill_container(uint8_t opcode);
  bool close_tuple(uint8_t opcode);
  bool use_memo(uint8_t opcode);
  bool make(uint8_t opcode);
  bool look_at_frame(uint8_t opcode);
  void execute(uint8_t opcode);
  [[noreturn]] void refuse_opcode(uint8_t opcode);

  template <class T>
  T number();
  int64_t length(uint64_t claimed);
  std::string_view take(int64_t count);
  std::string_view line();
  TorchValue integer(std::string_view bytes);
  TorchValue text(std::string_view bytes);

  void push(TorchValue value);
  TorchValue pop();
  Items pop_to_mark();
  const TorchValue& top() const;
  void put(int64_t index);
  void get(int64_t index);
  void add_items(const Items& items, TorchValue::Kind kind);
  void set_items(const Items& items);
  [[noreturn]] void refuse(const std::string& defect) const { source_.refuse(opcode_at_, defect); }

  const PickleSource& source_;
  ValueArena& arena_;
  InertCalls calls_;
  int64_t at_ = 0;         // of the next byte
  int64_t opcode_at_ = 0;  // of the opcode that is carried out
  Items stack_;
  std::vector<size_t> marks_;                      // heights of the stack
  std::vector<std::pair<TorchValue, bool>> memo_;  // and whether there is one
};

}  // namespace ds
