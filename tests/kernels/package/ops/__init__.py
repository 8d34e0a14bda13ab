from .elementwise import double, half, swap
