#include "core/torch/pickle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/status/error.h"
#include "core/text/utf8.h"
#include "core/torch/pickle_opcodes.h"
#include "core/torch/value_check.h"
#include "core/values/index.h"
#include "core/values/little_endian.h"

namespace ds {
namespace {

using Kind = TorchValue::Kind;

constexpr int kNewestProtocol = 5;

bool is_utf8(std::string_view text) { return first_invalid_utf8(text) == std::string_view::npos; }

}  // namespace

TorchValue PickleReader::read(int64_t begin) {
  at_ = begin;
  stack_.clear();
  marks_.clear();
  memo_.clear();
  for (;;) {
    opcode_at_ = at_;
    const auto opcode = number<uint8_t>();
    if (opcode == kStop) break;
    execute(opcode);
  }
  const TorchValue root = pop();
  if (!stack_.empty() || !marks_.empty()) refuse("the pickle ends with more than one value");
  if (const auto defect = defect_of_value(root, at_ - begin); defect.has_value()) refuse(*defect);
  return root;
}

void PickleReader::execute(uint8_t opcode) {
  const bool known = push_scalar(opcode) || push_text(opcode) || open_container(opcode) ||
                     fill_container(opcode) || close_tuple(opcode) || use_memo(opcode) ||
                     make(opcode) || look_at_frame(opcode);
  if (!known) refuse_opcode(opcode);
}

void PickleReader::refuse_opcode(uint8_t opcode) {
  if (opcode == kInst) {  // protocol 0: the name is in the opcode, and is told
    const std::string_view module = line();
    calls_.name(module, line(), opcode_at_);
  }
  const bool printable = opcode > ' ' && opcode <= '~';
  refuse(fmt::format("opcode 0x{:02x}{} is none of those that torch.save writes", opcode,
                     printable ? fmt::format(" ('{}')", static_cast<char>(opcode)) : ""));
}

template <class T>
T PickleReader::number() {
  const std::string_view bytes = take(sizeof(T));
  return little_endian<T>(std::as_bytes(std::span(bytes)), 0);
}

int64_t PickleReader::length(uint64_t claimed) {
  const auto left = source_.bytes.size() - to_size(at_);
  if (claimed > left) {
    refuse(
        fmt::format("{} bytes are said to follow, and there are {}; the file is truncated or "
                    "damaged",
                    claimed, left));
  }
  return static_cast<int64_t>(claimed);
}

std::string_view PickleReader::take(int64_t count) {
  const int64_t begin = at_;
  at_ += length(narrow<uint64_t>(count));
  const auto part = source_.bytes.subspan(to_size(begin), to_size(count));
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

std::string_view PickleReader::line() {
  const auto left = source_.bytes.subspan(to_size(at_));
  const auto end = std::ranges::find(left, std::byte{'\n'});
  if (end == left.end()) refuse("a name has no end; the file is truncated or damaged");
  const std::string_view name = take(end - left.begin());
  ++at_;
  return name;
}

// Two's complement, the lowest byte first; what does not fit into 64 bits stays bytes.
TorchValue PickleReader::integer(std::string_view bytes) {
  constexpr size_t kWide = sizeof(int64_t);
  const bool negative = !bytes.empty() && (bytes.back() & 0x80) != 0;
  const char sign = negative ? '\xff' : '\0';
  size_t used = bytes.size();
  while (used > kWide && bytes[used - 1] == sign && ((bytes[used - 2] & 0x80) != 0) == negative) {
    --used;
  }
  if (used > kWide) {
    return TorchValue(
        arena_.record({.module = "builtins", .name = "int"}, {TorchValue::bytes(bytes)}));
  }
  uint64_t value = negative ? ~uint64_t{0} : 0;
  for (size_t at = used; at-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at]);
  return TorchValue(std::bit_cast<int64_t>(value));
}

TorchValue PickleReader::text(std::string_view bytes) {
  if (!is_utf8(bytes)) refuse("a text is not valid UTF-8");
  return TorchValue::text(bytes);
}

void PickleReader::push(TorchValue value) {
  if (stack_.size() == stack_.capacity()) {
    arena_.charge(narrow<int64_t>((stack_.size() + 1) * 2 * sizeof(TorchValue)));
  }
  stack_.push_back(value);
}

const TorchValue& PickleReader::top() const {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("a value is missing before it");
  return stack_.back();
}

TorchValue PickleReader::pop() {
  const TorchValue value = top();
  stack_.pop_back();
  return value;
}

PickleReader::Items PickleReader::pop_to_mark() {
  if (marks_.empty()) refuse("the mark before its values is missing");
  const auto begin = stack_.begin() + narrow<std::ptrdiff_t>(marks_.back());
  Items items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

bool PickleReader::push_scalar(uint8_t opcode) {
  switch (opcode) {
    case kNone:
      push(TorchValue());
      return true;
    case kNewTrue:
    case kNewFalse:
      push(TorchValue(opcode == kNewTrue));
      return true;
    case kBinInt:
      push(TorchValue(int64_t{number<int32_t>()}));
      return true;
    case kBinInt1:
      push(TorchValue(int64_t{number<uint8_t>()}));
      return true;
    case kBinInt2:
      push(TorchValue(int64_t{number<uint16_t>()}));
      return true;
    case kLong1: {
      const int64_t count = number<uint8_t>();
      push(integer(take(count)));
      return true;
    }
    case kBinFloat: {  // the highest byte first
      uint64_t bits = 0;
      for (const char byte : take(sizeof(double))) {
        bits = bits << 8 | static_cast<unsigned char>(byte);
      }
      push(TorchValue(std::bit_cast<double>(bits)));
      return true;
    }
    default:
      return false;
  }
}

bool PickleReader::push_text(uint8_t opcode) {
  switch (opcode) {
    case kShortBinString: {  // a str of Python 2: a text as a rule
      const std::string_view bytes = take(number<uint8_t>());
      push(is_utf8(bytes) ? TorchValue::text(bytes) : TorchValue::bytes(bytes));
      return true;
    }
    case kBinUnicode:
      push(text(take(length(number<uint32_t>()))));
      return true;
    case kShortBinUnicode:
      push(text(take(number<uint8_t>())));
      return true;
    case kBinUnicode8:
      push(text(take(length(number<uint64_t>()))));
      return true;
    case kBinBytes:
      push(TorchValue::bytes(take(length(number<uint32_t>()))));
      return true;
    case kShortBinBytes:
      push(TorchValue::bytes(take(number<uint8_t>())));
      return true;
    case kBinBytes8:
    case kByteArray8:
      push(TorchValue::bytes(take(length(number<uint64_t>()))));
      return true;
    default:
      return false;
  }
}

bool PickleReader::open_container(uint8_t opcode) {
  switch (opcode) {
    case kMark:
      if (marks_.size() == marks_.capacity()) {
        arena_.charge(narrow<int64_t>((marks_.size() + 1) * 2 * sizeof(size_t)));
      }
      marks_.push_back(stack_.size());
      return true;
    case kEmptyList:
      push(TorchValue::sequence(Kind::kList, arena_.list({})));
      return true;
    case kEmptyTuple:
      push(TorchValue::sequence(Kind::kTuple, arena_.list({})));
      return true;
    case kEmptySet:
      push(TorchValue::sequence(Kind::kSet, arena_.list({})));
      return true;
    case kEmptyDict:
      push(TorchValue(arena_.dict()));
      return true;
    default:
      return false;
  }
}

void PickleReader::add_items(const Items& items, Kind kind) {
  if (top().kind() != kind) {
    refuse(fmt::format("items are added to {}, expected {}", kind_text(top().kind()),
                       kind_text(kind)));
  }
  arena_.append(*top().as_sequence(), items);
}

void PickleReader::set_items(const Items& items) {
  const TorchDict* dict = top().as_dict();
  if (dict == nullptr || items.size() % 2 != 0) {
    refuse(fmt::format("{} keys and values are put into {}, expected pairs and a dict",
                       items.size(), kind_text(top().kind())));
  }
  for (size_t at = 0; at < items.size(); at += 2) arena_.insert(*dict, items[at], items[at + 1]);
}

bool PickleReader::fill_container(uint8_t opcode) {
  switch (opcode) {
    case kAppend: {
      const TorchValue item = pop();
      add_items({item}, Kind::kList);
      return true;
    }
    case kAppends:
      add_items(pop_to_mark(), Kind::kList);
      return true;
    case kAddItems:
      add_items(pop_to_mark(), Kind::kSet);
      return true;
    case kSetItem: {
      const TorchValue value = pop();
      const TorchValue key = pop();
      set_items({key, value});
      return true;
    }
    case kSetItems:
      set_items(pop_to_mark());
      return true;
    default:
      return false;
  }
}

bool PickleReader::close_tuple(uint8_t opcode) {
  switch (opcode) {
    case kTuple:
      push(TorchValue::sequence(Kind::kTuple, arena_.list(pop_to_mark())));
      return true;
    case kFrozenSet:
      push(TorchValue::sequence(Kind::kSet, arena_.list(pop_to_mark())));
      return true;
    case kTuple1:
    case kTuple2:
    case kTuple3: {
      Items items(to_size(opcode - kTuple1 + 1));
      for (size_t at = items.size(); at-- > 0;) items[at] = pop();
      push(TorchValue::sequence(Kind::kTuple, arena_.list(std::move(items))));
      return true;
    }
    default:
      return false;
  }
}

void PickleReader::put(int64_t index) {
  const TorchValue value = top();
  const size_t place = to_size(index);
  if (place >= memo_.size()) {
    if (place >= memo_.capacity()) {
      const int64_t count = 2 * (index + 1);
      arena_.charge(count * narrow<int64_t>(sizeof(memo_.front())));
      memo_.reserve(to_size(count));
    }
    memo_.resize(place + 1);
  }
  memo_[place] = {value, true};
}

void PickleReader::get(int64_t index) {
  const size_t place = to_size(index);
  if (place >= memo_.size() || !memo_[place].second) {
    refuse(fmt::format("value {} of the memo is not there", index));
  }
  push(memo_[place].first);
}

bool PickleReader::use_memo(uint8_t opcode) {
  switch (opcode) {
    case kBinPut:
      put(number<uint8_t>());
      return true;
    case kLongBinPut:
      put(number<uint32_t>());
      return true;
    case kMemoize:
      put(narrow<int64_t>(memo_.size()));
      return true;
    case kBinGet:
      get(number<uint8_t>());
      return true;
    case kLongBinGet:
      get(number<uint32_t>());
      return true;
    default:
      return false;
  }
}

bool PickleReader::make(uint8_t opcode) {
  switch (opcode) {
    case kGlobal: {
      const std::string_view module = line();
      push(calls_.name(module, line(), opcode_at_));
      return true;
    }
    case kStackGlobal: {
      const TorchValue name = pop();
      const TorchValue module = pop();
      if (!name.as_text().has_value() || !module.as_text().has_value()) {
        refuse("the name of a class is no text");
      }
      push(calls_.name(*module.as_text(), *name.as_text(), opcode_at_));
      return true;
    }
    case kReduce: {
      const TorchValue arguments = pop();
      const TorchValue callable = pop();
      push(calls_.call(callable, arguments, opcode_at_));
      return true;
    }
    case kNewObj: {
      const TorchValue arguments = pop();
      const TorchValue of_class = pop();
      push(calls_.object(of_class, arguments, opcode_at_));
      return true;
    }
    case kBuild: {
      const TorchValue state = pop();
      calls_.build(top(), state, opcode_at_);
      return true;
    }
    case kBinPersId: {
      const TorchValue id = pop();
      push(calls_.storage(id, opcode_at_));
      return true;
    }
    default:
      return false;
  }
}

bool PickleReader::look_at_frame(uint8_t opcode) {
  if (opcode == kProto) {
    const int protocol = number<uint8_t>();
    if (protocol > kNewestProtocol) {
      refuse(fmt::format("pickle protocol {}, expected {} at most", protocol, kNewestProtocol));
    }
    return true;
  }
  if (opcode != kFrame) return false;
  length(number<uint64_t>());  // only how much a reader may take in at once
  return true;
}

}  // namespace ds
