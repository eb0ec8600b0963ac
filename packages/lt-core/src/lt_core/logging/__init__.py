"""The recorder behind ``self.log``."""
