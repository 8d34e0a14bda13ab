// Integers, booleans and addresses of one program's tiles, in the form in which index arithmetic writes them.
//
// `base + rows[:, None] * stride + cols[None, :]` is a number and two terms, each along one axis; `(rows < M)[:, None]
// & (cols < N)[None, :]` is a conjunction of two. As long as a tile is kept so, a row of 65536 elements costs what one
// number does. Whatever is not of that form becomes a table of its elements.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula::explaining {

/// What one program computes for a value of an integer, boolean or pointer type; pointers are addresses in bytes.
class IndexTile {
 public:
  /// A summand (of booleans: a condition) that varies along some axes.
  struct Term {
    enum class Form {
      Affine,    ///< step * i
      Interval,  ///< low <= i < high
      Table,     ///< an element for each position along `axes`, the last axis the fastest
    };
    Form form = Form::Affine;
    std::vector<int> axes;  ///< ascending; one unless it is a Table
    int64_t step = 0, low = 0, high = 0;
    std::shared_ptr<const std::vector<int64_t>> table = {};
  };

  IndexTile() = default;  ///< not known
  static IndexTile scalar(int64_t value, ir::Shape shape = {}, bool is_bool = false);
  static IndexTile arange(int64_t start, int64_t end);
  /// A value for each element along `axes` of a tile of that shape.
  static IndexTile of_table(ir::Shape shape, std::vector<int> axes, std::vector<int64_t> values, bool is_bool);

  /// Adds a summand, or a condition.
  void append(Term term) { add(std::move(term)); }

  bool known() const { return known_; }
  bool is_uniform() const { return known_ && terms_.empty(); }  ///< all elements are base()
  bool is_bool() const { return bool_; }
  int64_t base() const { return base_; }
  const std::vector<Term>& terms() const { return terms_; }
  const ir::Shape& shape() const { return shape_; }

  /// The axes along which elements differ, ascending.
  std::vector<int> axes() const;
  /// The elements along these axes, a superset of axes(); the last one is the fastest.
  std::vector<int64_t> table(const std::vector<int>& axes) const;
  /// Changes whenever the elements do, as a rule.
  uint64_t digest() const;

  /// The result of a pure op of integers, booleans or pointers; not known where an operand is not or the op is none of
  /// index arithmetic.
  static IndexTile apply(const ir::Op& op, const std::vector<const IndexTile*>& operands);

 private:
  friend IndexTile combine(const ir::Op& op, const std::vector<const IndexTile*>& operands);
  static IndexTile sum(const IndexTile& a, const IndexTile& b, int64_t scale);
  static IndexTile compare(ir::Opcode opcode, const IndexTile& a, const IndexTile& b);
  static IndexTile divide(const ir::Op& op, const IndexTile& a, int64_t divisor);
  static IndexTile reshape(const ir::Op& op, const IndexTile& x);
  IndexTile with_axes(const std::vector<int>& renamed, ir::Shape shape) const;
  void add(Term term);
  int64_t extent(const Term& term) const;
  std::pair<int64_t, int64_t> range() const;  ///< of a sum without tables; {0, -1} if there are any

  bool known_ = false, bool_ = false;
  ir::Shape shape_;
  int64_t base_ = 0;
  std::vector<Term> terms_;
};

/// One element of a pure op of numbers and booleans, as its type holds it; nullopt for ops that are none of index
/// arithmetic.
std::optional<int64_t> evaluate(const ir::Op& op, const int64_t* operands);

/// The results of a reduce or scan whose region is index arithmetic; not known otherwise.
std::vector<IndexTile> combine_along(const ir::Op& op, const std::vector<const IndexTile*>& operands);

}  // namespace tegula::explaining
