"""Sorting, topk, embeddings and histograms of the kernel library against numpy."""

import unittest

from entries import DEVICE, SOURCE, Array, Case, by_day, call, empty, gradient_of, kernels, normal, np, random, tegula


def whole(shape, kind="i32"):
    return Array(np.full(shape, 77), kind)


def order(x, descending):
    """Places of elements in order: NaNs as the largest, equal ones as they stand."""
    keys = np.where(np.isnan(x), np.inf, x)
    nan = np.isnan(x).astype(int)
    place = np.broadcast_to(np.arange(x.shape[1]), x.shape)
    return np.lexsort((place, -keys, -nan) if descending else (place, keys, nan), axis=1)


class Order(Case):

    def rows(self, rows, cols, kind):
        x = np.round(random.standard_normal((rows, cols)) * 8) / 4  # many equal ones
        x[0, cols // 2], x[0, -1], x[-1, 0] = np.nan, -np.inf, np.inf
        x[0, :cols // 4] = -0.0
        return Array(x, kind)

    def test_sort(self):
        for rows, cols, kind in ((1, 1, "f32"), (5, 3, "bf16"), (3, 300, "f16"), (1, 2100, "f32"), (700, 7, "f32"), (130, 100, "bf16"), (300, 1, "f16")):
            for descending in (False, True):
                x, index = self.rows(rows, cols, kind), whole((rows, cols))
                values = Array(np.full((rows, cols), 77.0), kind)
                call(kernels.sort_rows, values, index, x, descending=descending)
                exact = order(x.exact, descending)
                np.testing.assert_array_equal(index.now(), exact)
                np.testing.assert_array_equal(values.now(), np.take_along_axis(x.exact, exact, 1))
                call(kernels.sort_rows, x, None, x, descending=descending)
                np.testing.assert_array_equal(x.now(), values.now())

    def test_sort_by_buckets(self):
        """Rows that buckets divide well, and others: equal elements, few different ones, zeros of both signs, two clusters."""
        for cols in (1300, 1024, 1000, 1023):
            normal = random.standard_normal((1, cols))
            zeros = np.where(np.arange(cols) % 3 == 0, -0.0, np.maximum(normal, 0))
            clusters = np.where(normal > 0, 60000.0, -1e-6)
            for x in (normal, zeros, np.round(normal), np.full((1, cols), np.nan), clusters):
                for kind, descending in (("bf16", True), ("f16", False), ("f32", False)):
                    x, index, values = Array(getattr(x, "exact", x), kind), whole((1, cols), "i64"), empty((1, cols), kind)
                    call(kernels.sort_rows, values, index, x, descending=descending)
                    exact = order(x.exact, descending)
                    np.testing.assert_array_equal(index.now(), exact)
                    now, sorted_x = values.now(), np.take_along_axis(x.exact, exact, 1)
                    np.testing.assert_array_equal(now, sorted_x)
                    np.testing.assert_array_equal(np.signbit(now[now == 0]), np.signbit(sorted_x[now == 0]))

    def test_numbers_behind_the_end(self):
        """They reach over all the room above the last number, however few they are: close ones would fill a bucket."""
        text = """
import triton
import triton.language as tl

from order import behind_the_end

@triton.jit
def numbers(out_ptr, cols, LAST: tl.constexpr, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    tl.store(out_ptr + col, behind_the_end(col, cols, LAST, BLOCK).to(tl.int64), mask=col >= cols)
"""
        numbers = tegula.parse(text, str(SOURCE / "kernels" / "numbers.py")).numbers
        for cols, last in ((4000, 0xFF7FFFFF), (4095, 0xFFC0FFFF), (2049, 0xFFC00000)):
            out = whole((4096,), "i64")
            numbers[(1,)](out.given, cols, LAST=last, BLOCK=4096)
            found = out.now()[cols:]
            self.assertGreater(found[0], last)
            self.assertLess(found[-1], 1 << 32)
            self.assertEqual({(2**32 - 1 - last) // (4096 - cols)}, set(np.diff(found)) or {2**32 - 1 - last})

    def test_sort_values_alone(self):
        """Without places: signs of zeros in order, NaNs of either sign behind all, several elements a thread and warps."""
        for cols, kind in ((3, "f32"), (700, "f16"), (1024, "bf16"), (2500, "f32")):
            for descending in (False, True):
                x = self.rows(2, cols, kind)
                exact = np.take_along_axis(x.exact, order(x.exact, descending), 1)
                values = empty((2, cols), kind)
                call(kernels.sort_rows, values, None, x, descending=descending)
                now = values.now()
                np.testing.assert_array_equal(now, exact)
                zeros = np.signbit(now[0][now[0] == 0])
                np.testing.assert_array_equal(zeros, np.sort(zeros) if descending else np.sort(zeros)[::-1])

    def test_sort_long_rows(self):
        """Rows that several programs share, or one with much shared memory: one row, several, more pieces than are summed up at a time; in place."""
        shapes = ((3, 17000, "bf16"), (1, 16385, "f32"), (1, 66000, "f16"), (1, 8193, "f32"), (2, 12000, "bf16"), (1, 270000, "f16"))
        for rows, cols, kind in by_day(shapes, 2):
            for descending in (False, True):
                x, index = self.rows(rows, cols, kind), whole((rows, cols))
                x = Array(np.where(np.arange(cols) % 3 == 0, random.standard_normal((rows, cols)), x.exact), kind)
                values, exact = empty((rows, cols), kind), order(x.exact, descending)
                call(kernels.sort_rows, values, index, x, descending=descending)
                np.testing.assert_array_equal(index.now(), exact)
                now, sorted_x = values.now(), np.take_along_axis(x.exact, exact, 1)
                np.testing.assert_array_equal(now, sorted_x)
                numbers = ~np.isnan(now)
                np.testing.assert_array_equal(np.signbit(now[numbers]), np.signbit(sorted_x[numbers]))
                call(kernels.sort_rows, x, None, x, descending=descending)
                np.testing.assert_array_equal(x.now(), now)

    def test_topk(self):
        for rows, cols, k, kind in ((1, 1, 1, "f32"), (4, 9, 9, "f32"), (3, 1000, 50, "bf16"), (1, 9001, 64, "f32"), (1, 20001, 5, "f16"),
                                    (40, 300, 1, "f32"), (1, 2000, 700, "f32"), (700, 7, 3, "bf16"), (70, 128, 2, "f32"),
                                    (20, 500, 9, "bf16"), (20, 600, 9, "f32"), (9, 300, 300, "f16"), (1, 32766, 3, "bf16"), (1, 32767, 3, "f16")):
            for largest in (True, False):
                x, index = self.rows(rows, cols, kind), whole((rows, k), "i64")
                values = empty((rows, k), kind)
                call(kernels.topk_rows, values, index, x, largest=largest)
                exact = order(x.exact, largest)[:, :k]
                np.testing.assert_array_equal(index.now(), exact, f"{rows} x {cols}, {k}, {largest}")
                np.testing.assert_array_equal(values.now(), np.take_along_axis(x.exact, exact, 1))
        call(kernels.topk_rows, values, index, x)  # counters were set back
        np.testing.assert_array_equal(index.now(), order(x.exact, True)[:, :k])

    def test_selection(self):
        """Few elements beyond those that are wanted, or more than the room or the list of groups holds; several programs a row,
        several pieces a program."""
        topk_rows = tegula.load(str(SOURCE / "kernels" / "order.py"))["topk_rows"]
        scratch, counters = DEVICE.array(np.zeros(1 << 16, np.float32)), DEVICE.array(np.zeros(8, np.int32))
        sparse = np.zeros((2, 3000))
        sparse[0, 5:3000:600] = 3  # by one thread, and nothing else
        sparse[1, 2000:2040] = -np.arange(40)
        of_one_thread = np.where(np.arange(4000) % 512 < 8, np.arange(4000), 0.0)[None]
        rising = np.arange(5000.0)[None] - 2500
        for x, kind, k, programs in ((random.standard_normal((3, 2100)), "f32", 30, 3), (random.standard_normal((2, 5000)), "bf16", 32, 10),
                                     (np.round(random.standard_normal((5, 1100))), "f32", 17, 5), (sparse, "f32", 5, 4),
                                     (np.full((1, 2500), np.nan), "f16", 1, 1), (random.standard_normal((1, 4100)), "f32", 3, 2),
                                     (np.zeros((1, 3000)), "f32", 32, 1), (of_one_thread, "f32", 20, 1), (rising, "f32", 29, 2),
                                     (random.integers(0, 3, (1, 4000)), "bf16", 31, 1), (np.full((1, 1500), -np.inf), "f32", 9, 2)):
            for largest in (True, False):
                x = x if isinstance(x, Array) else Array(x, kind)
                (rows, cols), index = x.exact.shape, whole((len(x.exact), k), "i32")
                values = empty((rows, k), kind)
                is_single = programs == rows * ((cols + 1023) // 1024)
                topk_rows[(programs,)](values.given, index.given, x.given, k, k, cols, rows, cols, k, 2, scratch, counters, LARGEST=largest,
                                       BLOCK=1024, SELECT=True, PROGRAMS=8, ROWS=1, num_warps=2, SINGLE=is_single,
                                       EVEN=cols % 1024 == 0)
                exact = order(x.exact, largest)[:, :k]
                np.testing.assert_array_equal(index.now(), exact, f"{kind}, {k} of {rows} x {cols}, {largest}")
                np.testing.assert_array_equal(values.now(), np.take_along_axis(x.exact, exact, 1))

    def test_topk_of_many_rows(self):
        """Rooms of all rows together would take too much memory, so that there are several launches."""
        rows, cols, k = 4099, 513, 300
        x, index, values = self.rows(rows, cols, "f16"), whole((rows, k), "i32"), empty((rows, k), "f16")
        call(kernels.topk_rows, values, index, x)
        exact = order(x.exact, True)[:, :k]
        np.testing.assert_array_equal(index.now(), exact)
        np.testing.assert_array_equal(values.now(), np.take_along_axis(x.exact, exact, 1))

    def test_embedding(self):
        for rows, cols, kind in ((1, 1, "f32"), (7, 300, "bf16"), (33, 4096, "f32")):
            table, out = normal((11, cols), kind), empty((rows, cols), kind)
            index = random.integers(0, 11, rows)
            index[0] = 11 if rows > 1 else 3
            call(kernels.embedding, out, table, Array(index, "i64"))
            exact = np.where((index < 11)[:, None], table.exact[np.minimum(index, 10)], np.nan)
            np.testing.assert_array_equal(out.now(), exact)
            # As where the result is larger than the caches.
            program, out = tegula.load(str(SOURCE / "kernels" / "indexed.py")), empty((rows, cols), kind)
            program.embedding[(-(-rows // 4) * -(-cols // 64),)](out.given, table.given, Array(index, "i64").given, cols, cols, rows, cols, 11, 0, ROWS=4,
                                                             COLS=64, EVICTION="", STREAM=True, num_warps=2)
            np.testing.assert_array_equal(out.now(), exact)

    def test_tables_are_no_results(self):
        index, x = Array(np.zeros(4), "i64"), normal((4, 8))
        for entry, operands, text in ((kernels.embedding, (x, x), "embedding: out is table"),
                                      (kernels.embedding_backward, (x, x), "embedding_backward: dtable is dout"),
                                      (kernels.index_add, (x, x), "index_add: table is x")):
            with self.assertRaises(tegula.LaunchError) as caught:
                call(entry, *operands, index)
            self.assertEqual(str(caught.exception), f"{text}, which other programs still read")

    def test_embedding_backward(self):
        for rows, cols, kind in ((1, 1, "f32"), (7, 300, "bf16"), (1100, 40, "f32")):
            dout, start = normal((rows, cols), kind), normal((11, cols))
            index = random.integers(0, 9, rows)
            index[-1] = -1 if rows > 1 else 2
            exact = np.zeros((11, cols))
            np.add.at(exact, index[index >= 0], dout.exact[index >= 0])
            named = np.isin(np.arange(11), index)[:, None]
            for accumulate in (False, True):
                dtable = Array(start.exact, "f32")
                call(kernels.embedding_backward, dtable, dout, Array(index, "i32"), accumulate=accumulate)
                self.near(dtable, np.where(named, exact + start.exact * accumulate, start.exact), scale=rows**0.5)
            table = Array(start.exact, "f32")
            call(kernels.index_add, table, dout, Array(index, "i32"))
            if kind == "f32":
                self.near(table, start.exact + exact, scale=rows**0.5)

    def test_embedding_backward_of_many_rows(self):
        """Listed in one part or several, or sorted by one digit or two, segments within a part and over many; one index for most rows."""
        tables = ((1025, 33, 200, False, "bf16"), (3000, 8, 1000, True, "f32"), (2100, 300, 40000, False, "f16"), (4100, 130, 7, False, "f32"),
                  (9000, 2, 1000, True, "f32"), (1025, 33, 1100, False, "bf16"), (5000, 3, 70000, True, "f32"))
        for rows, cols, table_rows, skewed, kind in by_day(tables, 2):
            dout = normal((rows, cols), kind)
            index = random.integers(-2, table_rows + 2, rows)
            if skewed:
                index[random.random(rows) < 0.8] = table_rows - 1
            there = (index >= 0) & (index < table_rows)
            exact, start = np.zeros((table_rows, cols)), np.full((table_rows, cols), 0.5)
            np.add.at(exact, index[there], dout.exact[there])
            named = np.isin(np.arange(table_rows), index)[:, None]
            results = []
            for accumulate in (False, True, True):
                dtable = Array(start, "f32")
                call(kernels.embedding_backward, dtable, dout, Array(index, "i64"), accumulate=accumulate)
                self.near(dtable, np.where(named, exact + start * accumulate, start), scale=rows**0.5)
                results.append(dtable.now())
            np.testing.assert_array_equal(results[1], results[2])

    def test_listed_rows(self):
        """Tables of few rows and many, one key a program or several, lists that are equally long or not, with rows that no index names."""
        text, cases = tegula.load(str(SOURCE / "kernels" / "listed_sums.py")), ((1, 1, 1, 1, 512, 16), (500, 63, 20, 1, 512, 16), (513, 64, 1, 2, 512, 8),
                                                                                (700, 65, 23, 4, 512, 4), (3000, 40, 90, 8, 2048, 4),
                                                                                (1100, 130, 9, 8, 512, 1), (4500, 20, 3, 4, 4096, 4))
        for rows, cols, table_rows, keys, seen, deep in cases:
            x, numbers = normal((rows, cols)), random.integers(-2, table_rows + 2, rows)
            mostly_one, one = np.where(random.random(rows) < 0.9, table_rows - 1, numbers), np.full(rows, table_rows // 2)
            for index, accumulate in ((numbers, False), (mostly_one, True), (one, False), (numbers - 2**40, True), (np.arange(rows), False)):
                there = (index >= 0) & (index < table_rows)
                exact, start = np.zeros((table_rows, cols)), np.full((table_rows, cols), 0.5)
                np.add.at(exact, index[there], x.exact[there])
                groups, pieces, parts = -(-table_rows // keys), -(-cols // 64), -(-rows // seen)
                programs = groups * pieces * parts
                table, sums = Array(start, "f32"), Array(np.full(programs * keys * 64, np.nan), "f32")
                named, lists, counters = whole(programs * keys), whole(programs * keys * seen, "i16"), Array(np.zeros(groups * pieces), "i32")
                text.add_listed[(programs,)](table.given, sums.given, named.given, lists.given, counters.given, x.given, Array(index, "i64").given, cols, cols,
                                             rows, cols, table_rows, 0, 0, ACCUMULATE=accumulate, KEYS=keys, SEEN=seen, COLS=64, DEEP=deep, THREADS=128,
                                             SINGLE=parts == 1, num_warps=4)
                named = np.isin(np.arange(table_rows), index)[:, None]
                self.near(table, np.where(named, exact + start * accumulate, start), scale=rows**0.5)
                np.testing.assert_array_equal(counters.now(), 0)

    def test_index_add_of_many_elements(self):
        """Listed, and sorted."""
        for rows, cols, table_rows, kind in ((4200, 300, 7, "f32"), (4200, 4000, 1100, "bf16")):
            x, start, index = normal((rows, cols), kind), normal((table_rows, cols)), random.integers(-1, table_rows + 1, rows)
            exact, there = start.exact.copy(), (index >= 0) & (index < table_rows)
            np.add.at(exact, index[there], x.exact[there])
            table = Array(start.exact, "f32")
            call(kernels.index_add, table, x, Array(index, "i32"))
            self.near(table, exact, scale=rows**0.5)

    def test_gradient_of_embedding(self):
        table, dout, index = normal((4, 3)), normal((5, 3)), np.array([1, 3, 1, 0, 1])
        dtable = Array(np.zeros((4, 3)), "f32")
        call(kernels.embedding_backward, dtable, dout, Array(index, "i64"))
        self.near(dtable, gradient_of(lambda t: t[index], table.exact, dout.exact), scale=3)

    def test_histogram(self):
        for shape, bins in (((1, 1), 1), ((3, 1000), 7), ((5, 5000), 100), ((700, 33), 64)):
            x, counts = normal(shape), Array(np.full(bins, 5), "i32")
            x = Array(np.where(np.arange(shape[1]) == 0, 2.0, x.exact), "f32")
            call(kernels.histogram, counts, x, low=-1.0, high=2.0)
            inside = x.exact[(x.exact >= -1) & (x.exact <= 2)].astype(np.float32)
            part = np.minimum(np.floor((inside + 1) / np.float32(3) * np.float32(bins)), bins - 1).astype(int)
            np.testing.assert_array_equal(counts.now(), 5 + np.bincount(part, minlength=bins))

    def test_rows_sorted_by_a_digit(self):
        """Blocks of rows, some at a time, move theirs behind those of the blocks before them; indices outside of the table come last."""
        text = tegula.load(str(SOURCE / "kernels" / "segment_sums.py"))
        for rows, at_once in ((1, 8), (500, 8), (1000, 4), (1024, 16)):
            blocks, how = -(-rows // 64), dict(BLOCK=64, DIGITS=16, num_warps=4)
            index, earlier = (np.arange(rows) * 7919) % 17 - 1, (np.arange(rows) * 31) % 1000
            counts, keys, moved = (Array(np.zeros(n), "i32") for n in (16 * blocks, rows, rows))
            given = Array(index, "i64").given
            text["count_digits"][(blocks,)](counts.given, given, rows, 15, 0, **how)
            key = np.where(index < 0, 15, index)
            for numbers in (None, Array(earlier, "i32")):
                text["move_rows"][(blocks,)](keys.given, moved.given, given, numbers.given if numbers else None, counts.given, rows, 15, 0,
                                             DEEP=at_once, **how)
                order = key.argsort(kind="stable")
                np.testing.assert_array_equal(keys.now(), key[order])
                np.testing.assert_array_equal(moved.now(), earlier[order] if numbers else order)

    def test_refusals(self):
        wide, x = empty((2, 9000)), empty((2, 10))
        for wrong, text in (
            (lambda: call(kernels.topk_rows, empty((2, 11)), None, x), "topk_rows: k is 11, but rows have 10 elements"),
            (lambda: call(kernels.topk_rows, empty((2, 5000)), None, wide),
             "topk_rows: k is 5000, expected 4096 at most for rows of more than 8192 elements"),
            (lambda: call(kernels.histogram, whole(5000), x), "histogram: counts has 5000 elements, expected 4096 at most"),
        ):
            with self.assertRaises(tegula.LaunchError) as caught:
                wrong()
            self.assertEqual(str(caught.exception), text)


if __name__ == "__main__":
    unittest.main()
