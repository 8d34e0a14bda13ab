// Shared ownership in the public headers.
//
// std::shared_ptr would do, but <memory> costs each file of a program that includes Tegula as much compile time as all
// of Tegula's own headers; only sources include it.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace tegula {

namespace detail {

/// What is owned together; its last owner destroys it.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  virtual ~Counted() = default;

  void retain() noexcept { __atomic_fetch_add(&owners_, 1, __ATOMIC_RELAXED); }
  void release() noexcept {
    if (__atomic_sub_fetch(&owners_, 1, __ATOMIC_ACQ_REL) == 0) delete this;
  }

 private:
  long owners_ = 1;
};

/// One of the owners, or none.
class Owner {
 public:
  Owner() = default;
  /// The first owner.
  explicit Owner(Counted* counted) noexcept : counted_(counted) {}
  Owner(const Owner& other) noexcept : counted_(other.counted_) {
    if (counted_) counted_->retain();
  }
  Owner(Owner&& other) noexcept : counted_(std::exchange(other.counted_, nullptr)) {}
  Owner& operator=(Owner other) noexcept {
    std::swap(counted_, other.counted_);
    return *this;
  }
  ~Owner() {
    if (counted_) counted_->release();
  }

  Counted* get() const noexcept { return counted_; }

 private:
  Counted* counted_ = nullptr;
};

/// A value with its owners.
template <class V>
struct Box : Counted {
  template <class... Args>
  explicit Box(Args&&... args) : value(std::forward<Args>(args)...) {}
  V value;
};

/// std::shared_ptr, std::unique_ptr and the like, of what is a T.
template <class P, class T>
concept PointerTo = requires(const P& pointer) {
  typename P::element_type;
  requires std::is_convertible_v<decltype(pointer.get()), T*>;
};

}  // namespace detail

/// An object that several own, or null: what std::shared_ptr is without weak pointers. It takes over std::shared_ptr
/// and std::unique_ptr; std_shared() (runtime/base/std_shared.h) makes the former of it. T may be incomplete.
template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(std::nullptr_t) {}
  template <class P>
  requires detail::PointerTo<P, T> Shared(P pointer)
      : object_(pointer.get()), owner_(object_ ? new detail::Box<P>(std::move(pointer)) : nullptr) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Shared(Shared<U> other)
      : object_(other.object_), owner_(std::move(other.owner_)) {}
  Shared(const Shared&) = default;
  Shared(Shared&& other) noexcept : object_(std::exchange(other.object_, nullptr)), owner_(std::move(other.owner_)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    std::swap(owner_, other.owner_);
    return *this;
  }

  /// A new object.
  template <class... Args>
  static Shared make(Args&&... args) {
    auto* box = new detail::Box<std::remove_const_t<T>>(std::forward<Args>(args)...);
    Shared made;
    made.owner_ = detail::Owner(box);
    made.object_ = &box->value;
    return made;
  }

  explicit operator bool() const noexcept { return object_; }
  T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  bool operator==(const Shared& other) const noexcept { return object_ == other.object_; }
  bool operator==(std::nullptr_t) const noexcept { return !object_; }

 private:
  template <class>
  friend class Shared;

  T* object_ = nullptr;
  detail::Owner owner_;
};

}  // namespace tegula
