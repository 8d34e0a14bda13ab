// What both front ends do where control flow meets: values at the end of the branches of a run-time condition, and
// those that loops carry (loops.h builds them). A front end decides what is carried or merged; types and conversions
// are decided here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/semantics/sema.h"

namespace tegula::dsl {

/// The parts of a value that is made of several: of a tuple, a block pointer, a tensor descriptor; null for others.
const std::vector<Val>* parts_of(const Val& v);
/// `v`, which has parts, with others in their places. Poison if a part of a block pointer or descriptor is.
Val with_parts(const Val& v, std::vector<Val> parts);
/// Whether two values differ in their parts alone: tuples of one length, block pointers to blocks of one type.
bool same_form(const Val& a, const Val& b);

/// The same compile-time value, or the same IR value. Poison is like nothing.
bool same(const Val& a, const Val& b);
bool is_number(const Val& v);
/// `v` with its numbers typed (Val::typed), those in tuples too; objects of classes keep theirs.
Val as_scalars(const Val& v);
/// The way back, as Python's code takes them.
Val as_literals(const Val& v);
/// Whether as_scalars() changes the value.
bool has_literals(const Val& v);
/// The double that is nearest to a number; a bool is 0 or 1.
double as_double(const Val& number);
/// A number that a value of `type` can stand for: where the two meet, it takes that type.
bool fits(const Val& v, const ir::Type& type);
/// A number, a run-time value, or made of such parts and of constants that stay as they are: None, texts and types in
/// tuples, and what an object's constexpr fields have.
bool can_be_value(const Val& v);
/// The run-time values of `v`, made in the current block. False after an error.
bool flatten(Sema& s, const Val& v, std::string_view name, std::vector<ir::Value*>& out);
/// `v` with what flatten() gives replaced by values[next...].
Val rebuild(const Val& v, std::span<ir::Value* const> values, size_t& next);
/// The run-time values that make up `v`, which holds nothing else; none of poison.
std::vector<ir::Value*> leaves_of(const Val& v);
/// The leaves of `after` as values of the types that `before`, which a loop carries, has. False if they are no such.
bool match_carried(Sema& s, const Val& before, const Val& after, std::vector<ir::Value*>& out);
/// The constants 3, 4.0 are named as such; other values by their type.
std::string with_type(const Val& v);

/// An If op under construction: its two regions and what they yield so far.
struct Join {
  ir::Op* op = nullptr;
  ir::Builder outside;  ///< where the code goes on after the op
  std::vector<ir::Value*> yields[2];
};
Join begin_if(Sema& s, ir::Value* condition);
void enter(Sema& s, const Join& join, int side);
/// One value for `a` of region 0 and `b` of region 1. On failure nothing is reported: `why` says what does not fit.
std::optional<Val> merge(Sema& s, Join& join, const std::string& name, const Val& a, const Val& b, std::string& why);
void finish_if(Sema& s, Join& join);

/// The values of what a finished For or While carries, after it: results, or where the body hands on what it got, the
/// values of before.
std::vector<ir::Value*> values_behind(ir::Op& loop);
/// Takes out of a finished For or While what its body hands on as it got it. Its values after the loop are not used
/// yet.
void drop_unchanged(ir::Op& loop);

}  // namespace tegula::dsl
