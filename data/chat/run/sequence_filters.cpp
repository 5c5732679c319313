#include "data/chat/run/sequence_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/chat/run/attributes.h"
#include "data/chat/run/operators.h"
#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

// Texts without their case, unless it counts.
Value without_case(Context& context, const Value& value, bool case_counts) {
  if (case_counts || !value.is(Kind::kText)) return value;
  context.budget().spend_on(value.as_text().size());
  return context.text(lower(value.as_text()));
}

bool is_given(const Arguments& arguments, size_t index) {
  return arguments.has(index) && !arguments[index].is(Kind::kNone);
}

bool flag(const Arguments& arguments, size_t index) {
  return arguments.has(index) && arguments[index].is_true();
}

// The attribute of an item that a filter goes by; the item itself where it names none.
Value key_of(Context& context, const Value& item, const Arguments& arguments, size_t attribute,
             size_t case_sensitive) {
  const Value key =
      is_given(arguments, attribute) ? path_of(context, item, arguments[attribute]) : item;
  return without_case(context, key, flag(arguments, case_sensitive));
}

struct Keyed {
  Value key, item;
};

// Equal keys keep their order, in reverse, too.
void sort_by_key(Context& context, std::vector<Keyed>& all, bool reverse) {
  if (reverse) std::ranges::reverse(all);
  std::ranges::stable_sort(
      all, [&](const Keyed& a, const Keyed& b) { return less(&context.budget(), a.key, b.key); });
  if (reverse) std::ranges::reverse(all);
}

Values items_in_order(std::vector<Keyed> all) {
  Values out;
  for (Keyed& one : all) out.push_back(std::move(one.item));
  return out;
}

Value sort(Context& context, const Value& self, const Arguments& arguments) {
  std::vector<Keyed> all;
  for (const Value& item : items_of(context, self)) {
    Values keys;
    if (!is_given(arguments, 2) || !arguments[2].is(Kind::kText)) {
      keys.push_back(key_of(context, item, arguments, 2, 1));
    } else {
      std::string_view rest = arguments[2].as_text();
      for (bool more = true; more;) {
        const size_t comma = rest.find(',');
        const Value key = path_of(context, item, context.text(rest.substr(0, comma)));
        keys.push_back(without_case(context, key, flag(arguments, 1)));
        more = comma != rest.npos;
        if (more) rest.remove_prefix(comma + 1);
      }
    }
    all.push_back({context.list(std::move(keys)), item});
  }
  sort_by_key(context, all, flag(arguments, 0));
  return context.list(items_in_order(std::move(all)));
}

Value dict_sort(Context& context, const Value& self, const Arguments& arguments) {
  if (!self.is(Kind::kDict)) refuse_type("dictsort", self);
  const std::string by = arguments.has(1) ? text_of("dictsort", arguments[1]) : "key";
  if (by != "key" && by != "value") throw Fault("dictsort: it sorts by 'key' or 'value'");
  std::vector<Keyed> all;
  for (const auto& [key, value] : self.as_dict().items) {
    const Value& chosen = by == "key" ? key : value;
    all.push_back({without_case(context, chosen, flag(arguments, 0)), context.tuple({key, value})});
  }
  sort_by_key(context, all, flag(arguments, 2));
  return context.list(items_in_order(std::move(all)));
}

Value unique(Context& context, const Value& self, const Arguments& arguments) {
  Values seen, out;
  for (const Value& item : items_of(context, self)) {
    const Value key = key_of(context, item, arguments, 1, 0);
    check_hashable(key);
    const bool known = std::ranges::any_of(
        seen, [&](const Value& other) { return equal(&context.budget(), other, key); });
    if (known) continue;
    seen.push_back(key);
    out.push_back(item);
  }
  return context.iterator(std::move(out));
}

template <bool kLargest>
Value extreme(Context& context, const Value& self, const Arguments& arguments) {
  const Values items = items_of(context, self);
  if (items.empty()) return context.undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = key_of(context, items[0], arguments, 1, 0);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = key_of(context, items[i], arguments, 1, 0);
    const bool better =
        kLargest ? less(&context.budget(), best_key, key) : less(&context.budget(), key, best_key);
    if (!better) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

Value group_by(Context& context, const Value& self, const Arguments& arguments) {
  const auto key_of_item = [&](const Value& item) {
    Value key = path_of(context, item, arguments[0]);
    return key.is(Kind::kUndefined) && is_given(arguments, 1) ? arguments[1] : key;
  };
  std::vector<Keyed> all;
  for (const Value& item : items_of(context, self))
    all.push_back({without_case(context, key_of_item(item), flag(arguments, 2)), item});
  sort_by_key(context, all, false);
  Values out;
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    Values members;
    for (end = begin; end < all.size() && equal(&context.budget(), all[end].key, all[begin].key);
         ++end)
      members.push_back(all[end].item);
    if (members.empty()) {  // a key that does not equal itself
      members.push_back(all[begin].item);
      end = begin + 1;
    }
    const Value key = flag(arguments, 2) ? all[begin].key : key_of_item(members[0]);
    out.push_back(make_sequence(&context.budget(), {key, context.list(std::move(members))},
                                Sequence::Form::kGroup));
  }
  return context.list(std::move(out));
}

Value sum(Context& context, const Value& self, const Arguments& arguments) {
  Value out = arguments.has(1) ? arguments[1] : Value(int64_t{0});
  if (out.is(Kind::kText)) throw Fault("sum: texts are joined by join");
  for (const Value& item : items_of(context, self)) {
    const Value one = is_given(arguments, 0) ? path_of(context, item, arguments[0]) : item;
    out = calculate(context, Operator::kAdd, out, one);
  }
  return out;
}

Value join_items(Context& context, const Value& self, const Arguments& arguments) {
  const std::string between = arguments.has(0) ? context.str(arguments[0]) : "";
  std::string out;
  bool first = true;
  for (const Value& item : items_of(context, self)) {
    if (!std::exchange(first, false)) out += between;
    const std::string one =
        context.str(is_given(arguments, 1) ? path_of(context, item, arguments[1]) : item);
    out += one;
    context.budget().spend_on(one.size() + between.size());
    if (out.size() > context.budget().limits().bytes) context.budget().take(out.size());
  }
  return context.text(std::move(out));
}

Value first(Context& context, const Value& self, const Arguments&) {
  if (self.is(Kind::kIterator)) {
    Iterator& iterator = *self.shared<Iterator>();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
    return context.undefined("No first item, sequence was empty.");
  }
  const Values items = items_of(context, self);
  return items.empty() ? context.undefined("No first item, sequence was empty.") : items.front();
}

Value last(Context& context, const Value& self, const Arguments&) {
  if (self.is(Kind::kIterator) || self.is(Kind::kUndefined)) refuse_type("last", self);
  const Values items = items_of(context, self);
  return items.empty() ? context.undefined("No last item, sequence was empty.") : items.back();
}

Value length(Context& context, const Value& self, const Arguments&) {
  if (self.is(Kind::kText)) context.budget().spend(self.as_text().size() / 256);
  return Value(length_of(self));
}

Value to_list(Context& context, const Value& self, const Arguments&) {
  return context.list(items_of(context, self));
}

Value reverse(Context& context, const Value& self, const Arguments&) {
  if (self.is(Kind::kText)) {
    std::u32string characters = characters_of(self.as_text());
    context.budget().spend_on(self.as_text().size() * 8);
    std::ranges::reverse(characters);
    return self.is_markup() ? make_markup(&context.budget(), text_of(characters))
                            : context.text(text_of(characters));
  }
  Values items = items_of(context, self);
  std::ranges::reverse(items);
  // What Python cannot go through from the end comes as a list.
  const bool listed = self.is(Kind::kIterator) || self.is(Kind::kUndefined);
  return listed ? context.list(std::move(items)) : context.iterator(std::move(items));
}

Value items(Context& context, const Value& self, const Arguments&) {
  if (self.is(Kind::kUndefined)) return context.iterator({});
  if (!self.is(Kind::kDict)) refuse_type("items", self);
  Values out;
  for (const auto& [key, value] : self.as_dict().items) out.push_back(context.tuple({key, value}));
  return context.iterator(std::move(out));
}

Value batch(Context& context, const Value& self, const Arguments& arguments) {
  const size_t size = size_of("batch", arguments[0]);
  Values out, row;
  const auto end_row = [&] { out.push_back(context.list(std::exchange(row, {}))); };
  for (const Value& item : items_of(context, self)) {
    if (row.size() == size) end_row();
    row.push_back(item);
  }
  if (!row.empty()) {
    context.budget().spend(is_given(arguments, 1) ? size / 8 : 0);
    while (is_given(arguments, 1) && row.size() < size) row.push_back(arguments[1]);
    end_row();
  }
  return context.iterator(std::move(out));
}

Value slice(Context& context, const Value& self, const Arguments& arguments) {
  const Values all = items_of(context, self);
  const size_t slices = size_of("slice", arguments[0]);
  if (slices == 0) throw Fault("slice: division by zero");
  context.budget().spend(slices);
  const size_t each = all.size() / slices, longer = all.size() % slices;
  Values out;
  size_t begin = 0;
  for (size_t i = 0; i < slices; ++i) {
    const size_t end = begin + each + (i < longer ? 1 : 0);
    Values row(all.begin() + static_cast<ptrdiff_t>(begin),
               all.begin() + static_cast<ptrdiff_t>(end));
    if (is_given(arguments, 1) && i >= longer) row.push_back(arguments[1]);
    out.push_back(context.list(std::move(row)));
    begin = end;
  }
  return context.iterator(std::move(out));
}

Arguments behind(const Arguments& arguments, size_t count) {
  Arguments out = arguments;
  out.positional.erase(out.positional.begin(),
                       out.positional.begin() + static_cast<ptrdiff_t>(count));
  return out;
}

Value map(Context& context, const Value& self, const Arguments& arguments) {
  if (!self.is_true()) return context.iterator({});
  Values out;
  const Value* attribute = arguments.find("attribute");
  const bool by_attribute = arguments.positional.empty() && attribute != nullptr;
  if (!by_attribute && arguments.positional.empty()) throw Fault("map: it wants a filter");
  const Value* otherwise = arguments.find("default");
  if (by_attribute && arguments.named.size() > (otherwise == nullptr ? 1 : 2))
    throw Fault("map: an argument that it does not know");
  for (const Value& item : items_of(context, self)) {
    if (!by_attribute) {
      out.push_back(context.filter(text_of("map", arguments[0]), item, behind(arguments, 1)));
      continue;
    }
    Value value = path_of(context, item, *attribute);
    const bool replaced =
        value.is(Kind::kUndefined) && otherwise != nullptr && !otherwise->is(Kind::kNone);
    out.push_back(replaced ? *otherwise : std::move(value));
  }
  return context.iterator(std::move(out));
}

template <bool kKeep, bool kByAttribute>
Value select(Context& context, const Value& self, const Arguments& arguments) {
  if (!self.is_true()) return context.iterator({});
  constexpr size_t kTest = kByAttribute ? 1 : 0;
  if (kByAttribute && arguments.positional.empty())
    throw Fault("selectattr and rejectattr want the name of an attribute");
  Values out;
  for (const Value& item : items_of(context, self)) {
    const Value tested = kByAttribute ? path_of(context, item, arguments[0]) : item;
    const bool holds = arguments.positional.size() > kTest
                           ? context.test(text_of("select", arguments[kTest]), tested,
                                          behind(arguments, kTest + 1))
                           : tested.is_true();
    if (holds == kKeep) out.push_back(item);
  }
  return context.iterator(std::move(out));
}

constexpr std::array kSequenceFilters{
    Native{"batch", "linecount,fill_with=", batch},
    Native{"count", "", length},
    Native{"dictsort", "case_sensitive=,by=,reverse=", dict_sort},
    Native{"first", "", first},
    Native{"groupby", "attribute,default=,case_sensitive=", group_by},
    Native{"items", "", items},
    Native{"join", "d=,attribute=", join_items},
    Native{"last", "", last},
    Native{"length", "", length},
    Native{"list", "", to_list},
    Native{"map", "...", map},
    Native{"max", "case_sensitive=,attribute=", extreme<true>},
    Native{"min", "case_sensitive=,attribute=", extreme<false>},
    Native{"reject", "...", select<false, false>},
    Native{"rejectattr", "...", select<false, true>},
    Native{"reverse", "", reverse},
    Native{"select", "...", select<true, false>},
    Native{"selectattr", "...", select<true, true>},
    Native{"slice", "slices,fill_with=", slice},
    Native{"sort", "reverse=,case_sensitive=,attribute=", sort},
    Native{"sum", "attribute=,start=", sum},
    Native{"unique", "case_sensitive=,attribute=", unique},
};

}  // namespace

std::span<const Native> sequence_filters() { return kSequenceFilters; }

}  // namespace ds::chat
